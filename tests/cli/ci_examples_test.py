#!/usr/bin/env python3
"""Runs the CI examples of docs/gate.md as they stand, on a repository of two commits whose build is a link.

usage: ci_examples_test.py DOCS_GATE_MD TUNE      exit 77 where python3-yaml is missing
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    sys.exit(77)

# What `./run build` leaves behind.
RUN = """#!/bin/sh
mkdir -p build/release/bin && ln -sf "$TUNE" build/release/bin/tune
"""


def scripts(example):
    """What the two systems would execute, but for the installation of packages, and the job's own variables."""
    if "jobs" in example:
        job = example["jobs"]["gate"]
        return [step["run"] for step in job["steps"] if "run" in step and "apt-get" not in step["run"]], job["env"]
    job = example["performance gate"]
    return job["script"], job["variables"]


def repository(folder):
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    git("init", "-q")
    run = folder / "run"
    run.write_text(RUN)
    run.chmod(0o755)
    git("add", "run")
    git("commit", "-qm", "base")
    git("commit", "-qm", "head", "--allow-empty")


def check(example, tune):
    lines, variables = scripts(example)
    assert "resnet18" in variables["MODELS"] and "$" in variables["BASE"], variables
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repository(folder)
        environment = {**os.environ, "HOME": name, "TUNE": tune, "BASE": "HEAD~1", "MODELS": "dqn", "GITHUB_STEP_SUMMARY": f"{name}/summary"}
        script = "\n".join(lines)
        done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "dqn   SAME" in done.stdout, done.stdout
        assert "<testcase" in (folder / "gate.xml").read_text()
        assert "### Performance gate: pass" in (folder / "summary").read_text()


def main():
    text = pathlib.Path(sys.argv[1]).read_text()
    examples = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.S)]
    assert len(examples) == 2, len(examples)
    for example in examples:
        check(example, os.path.abspath(sys.argv[2]))


main()
