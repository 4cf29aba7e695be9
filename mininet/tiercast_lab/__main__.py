import os
import signal


def _end(number: int, _frame: object) -> None:
    os._exit(128 + number)


def main() -> None:
    # Until a run begins there is nothing to remove, so Ctrl-C simply ends the process, even during
    # the import below. The handler is a function, not SIG_DFL: polars hooks the signal and would
    # swallow the default.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    from tiercast_lab.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
