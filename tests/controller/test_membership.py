"""Membership: what keeps a place of membership alive, and for how long."""

from ipaddress import IPv4Address

from tiercast_controller.multicast.membership import UNKNOWN_REPORTER, LayerMember, Membership

PLACE = LayerMember(session=1, rank=0, switch="s7", port=2)
A, B = IPv4Address("10.0.15.2"), IPv4Address("10.0.15.3")


def test_the_first_join_and_the_last_leave_count() -> None:
    membership = Membership()
    assert membership.join(PLACE, A, 0)
    assert not membership.join(PLACE, A, 1)
    assert not membership.join(PLACE, B, 2)
    assert not membership.leave(PLACE, A, 3)
    assert membership.leave(PLACE, B, 3)
    assert not membership.leave(PLACE, B, 3)
    assert list(membership.members()) == []


def test_a_leave_of_somebody_else_changes_nothing() -> None:
    membership = Membership()
    membership.join(PLACE, A, 0)
    assert not membership.leave(PLACE, B, 3)
    assert list(membership.members()) == [PLACE]


def test_members_expire_unless_they_report() -> None:
    membership = Membership(lifetime_s=10)
    membership.join(PLACE, A, 0)
    membership.join(PLACE, B, 5)
    assert membership.expire(9.9) == []
    membership.join(PLACE, B, 9.9)
    assert membership.expire(10) == []
    assert membership.expire(19.8) == []
    assert membership.expire(19.9) == [PLACE]
    assert membership.expire(30) == []


def test_without_a_lifetime_nobody_expires() -> None:
    membership = Membership()
    membership.join(PLACE, A, 0)
    assert membership.expire(1e12) == []


def test_whoever_was_found_there_ends_with_any_leave_and_makes_way_for_a_report() -> None:
    membership = Membership()
    membership.join(PLACE, UNKNOWN_REPORTER, 0)
    assert membership.leave(PLACE, A, 3)
    membership.join(PLACE, UNKNOWN_REPORTER, 0)
    assert not membership.join(PLACE, A, 0)
    assert membership.leave(PLACE, A, 3)


def test_a_leave_takes_effect_its_latency_later_unless_the_host_joins_again() -> None:
    membership = Membership(leave_latency_s=1)
    membership.join(PLACE, A, 0)
    assert not membership.leave(PLACE, A, 5)
    assert not membership.leave(PLACE, A, 5.5)  # said twice (RFC 3376 5.1); the first one counts
    assert membership.expire(5.9) == []
    assert list(membership.members()) == [PLACE]
    assert membership.expire(6) == [PLACE]
    assert membership.join(PLACE, A, 7)
    assert not membership.leave(PLACE, A, 8)
    assert not membership.join(PLACE, A, 8.5)  # the place was there all the time
    assert membership.expire(100) == []
    assert not membership.leave(PLACE, A, 100)
    assert membership.expire(100.9) == []  # counted from the last leave
    assert membership.expire(101) == [PLACE]


def test_others_at_the_place_are_not_touched_by_a_leave() -> None:
    membership = Membership(leave_latency_s=1)
    membership.join(PLACE, A, 0)
    membership.join(PLACE, B, 0)
    assert not membership.leave(PLACE, A, 5)
    assert membership.expire(10) == []
    assert list(membership.members()) == [PLACE]
    assert not membership.leave(PLACE, B, 10)
    assert membership.expire(11) == [PLACE]


def test_a_leave_before_the_end_of_a_lifetime_does_not_lengthen_it() -> None:
    membership = Membership(lifetime_s=10, leave_latency_s=1)
    membership.join(PLACE, A, 0)
    membership.leave(PLACE, A, 9.5)
    assert membership.expire(10) == [PLACE]
