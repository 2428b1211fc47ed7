"""Say how an extra of Hookline is installed, for every message that names one."""


def install_extra(names: str) -> str:
    """Return what to run, for the end of a sentence. ``names`` may be several, with commas.

    The package is never named alone: as long as no index has it, whoever takes its name there is installed instead.
    """
    return f"pip install '.[{names}]' in a checkout of Hookline, or 'FILE.whl[{names}]' with its wheel"
