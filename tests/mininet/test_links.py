"""Links that fail and lose, as a file says: what is read, what is refused, and what each port is
told."""

from __future__ import annotations

import textwrap

import pytest
from tiercast_lab.base.errors import InputError
from tiercast_lab.experiment.wire import Loss, Reorder
from tiercast_lab.run.network_summary import network_summary
from tiercast_lab.run.ns3.scenario import scenario
from tiercast_lab.run.port_changes import port_changes

from .conftest import SMALL, Load

MS = 1_000_000  # ns


def with_events(*events: str) -> str:
    return textwrap.dedent(SMALL) + "events:\n" + "".join(f"  - {{{event}}}\n" for event in events)


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("1%", Loss(in_good=0.01)),
        ("0.5", Loss(in_good=0.5)),
        ("{mean: 20%, burst: 4p}", Loss(to_bad=0.0625, to_good=0.25, in_bad=1.0)),
        ("{p: 1%, r: 25%}", Loss(0.01, 0.25, 1.0, 0.0)),
        ("{p: 1%, r: 25%, in_bad: 50%, in_good: 2%}", Loss(0.01, 0.25, 0.5, 0.02)),
    ],
)
def test_a_loss_is_a_share_or_a_model_of_bursts(load: Load, text: str, loss: Loss) -> None:
    (event,) = load(with_events(f"at: 5s, link: 1-3, loss: {text}")).experiment.link_events
    assert event.wire.loss == loss


@pytest.mark.parametrize("mean", [0.001, 0.01, 0.3, 0.5])
@pytest.mark.parametrize("burst", [1, 2, 50])
def test_mean_and_burst_are_those_of_the_model(load: Load, mean: float, burst: int) -> None:
    text = with_events(f"at: 5s, link: 1-3, loss: {{mean: {mean}, burst: {burst}p}}")
    loss = load(text).experiment.link_events[0].wire.loss
    assert loss is not None
    assert loss.to_bad / (loss.to_bad + loss.to_good) == pytest.approx(mean)
    assert loss.mean == pytest.approx(mean)
    assert 1 / loss.to_good == burst


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("loss: 101%", "events.0.loss: '101%' is above the whole; valid: 0% to 100%"),
        ("loss: 5", "events.0.loss: 5 is not a fraction"),
        ("loss: {mean: 80%, burst: 2p}", "valid: up to 66.6667% with bursts of 2p"),
        ("loss: {mean: 1%, burst: 0p}", "burst is '0p'; valid: 1p or more"),
        ("loss: {mean: 1%}", "'mean' and 'burst', or 'p' and 'r'"),
        ("loss: {p: 1%}", "'p' and 'r' go together"),
        ("loss: {mena: 1%}", "events.0.loss.mena: unknown key"),
        ("up: 1", "events.0.up: 1; valid: true or false"),
        ("reorder: 5%", "events.0.reorder"),
        ("reorder: {share: 5%, delay: 0s}", "events.0.reorder.delay"),
        ("jitter: 61s", "events.0.jitter"),
        ("duplicate: 200%", "events.0.duplicate"),
        ("up: [true, false]", "a list of values needs 'every'"),
        ("every: 1s", "nothing changes; valid: at least one of rate, delay, queue, up, loss"),
    ],
)
def test_what_no_link_can_do_is_refused_by_name(load: Load, event: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        load(with_events(f"at: 5s, link: 1-3, {event}"))
    assert said in str(error.value)


def test_a_direction_must_be_one_of_a_link_and_a_host_has_no_queue(load: Load) -> None:
    with pytest.raises(InputError, match=r"events.0.link: no link '3>4'.* or a direction"):
        load(with_events("at: 5s, link: 3>4, up: false"))
    with pytest.raises(InputError, match=r"events.0.rate: 3>1 leaves a host"):
        load(with_events("at: 5s, link: 3>1, rate: 1Mbit/s"))
    load(with_events("at: 5s, link: 3>1, delay: 1ms, up: false, loss: 1%"))


def test_an_event_that_changes_nothing_is_refused(load: Load) -> None:
    """With one_way, the direction towards a link's first node has a delay alone, and is up or
    down."""

    def change_link(event: str) -> None:
        text = with_events(f"at: 5s, link: {event}")
        load(text.replace("topology:", "topology:\n  one_way: true", 1))

    for change in (
        "rate: 1Mbit/s", "queue: 9p", "loss: 1%", "jitter: 1ms", "duplicate: 1%",
        "reorder: {share: 1%, delay: 5ms}",
    ):  # fmt: skip
        key = change.partition(":")[0]
        said = rf"events.0.{key}: 1>0 is the direction .*valid: delay, up, or the other direction"
        with pytest.raises(InputError, match=said):
            change_link(f"1>0, {change}")
        change_link(f"0>1, {change}")
        change_link(f"0-1, {change}")
    change_link("1>0, delay: 1ms, up: false")


def test_every_key_takes_values_in_turn(load: Load) -> None:
    text = with_events(
        "at: 5s, every: 5s, link: 1-3, up: [false, true], delay: [1ms, 2ms, 3ms], loss: [0%, 1%]"
    )
    events = load(text).experiment.link_events
    assert [event.at for event in events] == [5000 * MS, 10_000 * MS, 15_000 * MS]
    assert [event.wire.up for event in events] == [False, True, False]
    assert [event.delay for event in events] == [1 * MS, 2 * MS, 3 * MS]
    assert [event.wire.loss for event in events] == [Loss(), Loss(in_good=0.01), Loss()]


def test_both_ends_are_told_or_that_of_the_direction(load: Load) -> None:
    loaded = load(
        with_events(
            "at: 5s, link: 0-1, up: false",
            "at: 6s, link: 1>0, up: true",
            "at: 7s, link: 1-3, up: false",
            "at: 8s, link: 3>1, delay: 9ms",
        )
    )
    told = [
        {
            (switch, port): {k: v for k, v in fields.items() if v is not None}
            for switch, port, fields in port_changes(loaded.topology, event)
        }
        for event in loaded.experiment.link_events
    ]
    ports = {
        (name, other): (name, number)
        for name, switch in loaded.topology.switches.items()
        for number, (other, _) in enumerate(switch.ports, 1)
    }
    assert [set(one) for one in told] == [
        {ports["s0", "s1"], ports["s1", "s0"]},
        {ports["s1", "s0"]},
        {ports["s1", "h3"]},
        {ports["s1", "h3"]},
    ]
    assert told[0][ports["s0", "s1"]]["wire"].up is False
    assert told[1][ports["s1", "s0"]]["wire"].up is True
    # Node 3 is a host, so its switch does both directions.
    assert {key: wire.up for key, wire in told[2][ports["s1", "h3"]].items()} == {
        "wire": False, "rx_wire": False,
    }  # fmt: skip
    assert told[3][ports["s1", "h3"]] == {"rx_delay_ns": 9 * MS}


def test_keys_at_the_start_are_of_both_directions(load: Load) -> None:
    link = "1-3: {rate: 1Mbit/s, up: false, reorder: {share: 5%, delay: 15ms}, duplicate: 2%}"
    loaded = load(SMALL.replace("1-3: {rate: 1Mbit/s}", link))
    wire = loaded.topology.links["1-3"].parameters.wire
    assert (wire.up, wire.duplicate) == (False, 0.02)
    assert wire.reorder == Reorder(share="5%", delay="15ms")
    made = scenario(loaded, seed=1)
    assert made.records_wires
    (port,) = (port for switch in made.switches for port in switch.ports if port.link == "1>3")
    for one in (port.wire, port.rx_wire):
        assert (one.up, one.duplicate, one.reorder.share) == (False, 0.02, 0.05)
        assert one.reorder.delay_ns == 15 * MS
    assert not scenario(load(SMALL), seed=1).records_wires


def test_a_link_that_is_down_has_no_bandwidth(load: Load) -> None:
    text = with_events(
        "at: 5s, link: 1-3, up: false",
        "at: 6s, link: 3>1, up: true",
        "at: 7s, link: 1>3, up: true, rate: 2Mbit/s",
        "at: 8s, link: 1>0, up: false",
        "at: 9s, link: 0-1, rate: 1Mbit/s",
    )
    receivers = network_summary(load(text))["sessions"][0]["receivers"]
    assert receivers["h3"]["available"] == [
        [0.0, 1e6], [5.0, 0.0], [7.0, 2e6], [9.0, 1e6],
    ]  # fmt: skip
    assert receivers["h4"]["available"] == [[0.0, 6e6], [9.0, 1e6]]
