"""`tiercast --install-completion`, and what the shell completes afterwards."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..checkout import ROOT


def bash(home: Path, script: str) -> list[str]:
    """The lines that a script prints, in its own home directory."""
    environment = {**os.environ, "HOME": str(home), "PATH": f"{ROOT}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def completed(home: Path, line: str) -> list[str]:
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    quoted = " ".join(f'"{word}"' for word in words)
    return bash(
        home,
        f". ~/.bashrc; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        'set -- $(complete -p tiercast | grep -oE -- "-F [^ ]+"); $2 tiercast; '
        'printf "%s\\n" "${COMPREPLY[@]}"',
    )


def test_bash_completes_commands_and_names(tmp_path: Path) -> None:
    # A command follows, because bash would replace itself with a last command, and typer looks at
    # its parent process.
    said = bash(tmp_path, "tiercast --install-completion; true")
    assert said[0].startswith("bash completion installed in ")
    assert completed(tmp_path, "tiercast ru") == ["run", "runtimes"]
    assert completed(tmp_path, "tiercast run sim-sm") == ["sim-smoke"]
    assert completed(tmp_path, "tiercast figure mlda-4") == ["mlda-4"]
    assert completed(tmp_path, "tiercast run sim-session --runtime n") == ["ns3"]
    assert set(completed(tmp_path, "tiercast run basic-r")) == {
        path.stem for path in (ROOT / "experiments").glob("basic-r*.yaml")
    }


def test_zsh_has_a_script_and_is_answered(tmp_path: Path) -> None:
    script = bash(tmp_path, "_TIERCAST_COMPLETE=source_zsh tiercast")
    assert "#compdef tiercast" in script
    ask = "_TIERCAST_COMPLETE=complete_zsh _TYPER_COMPLETE_ARGS='tiercast run sim-sm' tiercast"
    assert '"sim-smoke"' in "\n".join(bash(tmp_path, ask))
