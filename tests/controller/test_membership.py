"""Membership: what keeps a place of membership alive, and for how long."""

from ipaddress import IPv4Address

from tiercast_controller.multicast.membership import UNKNOWN_REPORTER, Member, Membership

PLACE = Member(session=1, rank=0, switch="s7", port=2)
A, B = IPv4Address("10.0.15.2"), IPv4Address("10.0.15.3")


def test_the_first_join_and_the_last_leave_count() -> None:
    membership = Membership()
    assert membership.join(PLACE, A, 0)
    assert not membership.join(PLACE, A, 1)
    assert not membership.join(PLACE, B, 2)
    assert not membership.leave(PLACE, A)
    assert membership.leave(PLACE, B)
    assert not membership.leave(PLACE, B)
    assert list(membership.members()) == []


def test_a_leave_of_somebody_else_changes_nothing() -> None:
    membership = Membership()
    membership.join(PLACE, A, 0)
    assert not membership.leave(PLACE, B)
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
    assert membership.leave(PLACE, A)
    membership.join(PLACE, UNKNOWN_REPORTER, 0)
    assert not membership.join(PLACE, A, 0)
    assert membership.leave(PLACE, A)
