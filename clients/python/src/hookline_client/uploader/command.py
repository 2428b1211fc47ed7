"""The command ``hookline-upload``: arguments in, an exit code out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hookline_client.errors import InvalidOption
from hookline_client.http_transport import make_transport
from hookline_client.options import Options, environment_name, resolve
from hookline_client.uploader.exit_code import ExitCode
from hookline_client.uploader.report import Report
from hookline_client.uploader.uploader import RETRY_SECONDS, Uploader
from hookline_client.version import VERSION

DESCRIPTION = "Upload the log of the file consumer. Made to run every minute; a run goes on where the last one ended."
TIMEOUT_SECONDS = 30.0
"""For one request of up to 500 KB."""
ENDINGS = """\
exit codes:
   0  everything was acknowledged, or there was nothing to do
   2  the arguments cannot be used
  65  as 0, but some lines cannot be uploaded: they are in FILE.rejected
  74  a file cannot be read, written or renamed, or somebody else may have put it there
  75  not now: the service is away, or another uploader is at this file; the next run goes on
  77  the service refuses the write key, or what answers at the endpoint is not Hookline
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    try:
        options = _options(given)
    except InvalidOption as error:
        parser.error(error.message)
    if not options.write_key:
        parser.error(f"give the write key: --secret KEY, or {environment_name('write_key')} in the environment")
    report = Report(is_verbose=given.verbose, as_json=given.json)
    transport = make_transport(options)
    try:
        exit_code = Uploader(options.filename, transport, report, given.retry_for).run()
    except KeyboardInterrupt:
        report.problem("interrupted; the next run goes on")
        exit_code = ExitCode.LATER
    finally:
        transport.close()
    report.end(exit_code)
    return int(exit_code)


def make_parser() -> argparse.ArgumentParser:
    """The arguments the command takes."""
    parser = argparse.ArgumentParser(
        prog="hookline-upload",
        description=DESCRIPTION,
        epilog=ENDINGS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    secret, endpoint, file = map(environment_name, ("write_key", "endpoint", "filename"))
    parser.add_argument("--secret", metavar="KEY", help=f"the write key; better in {secret}: everyone sees arguments")
    parser.add_argument("--file", help=f"the log file ({file}; default {Options().filename})")
    parser.add_argument("--endpoint", metavar="URL", help=f"the service ({endpoint}; default {Options().endpoint})")
    parser.add_argument("--ca-file", metavar="PEM", help="certificate authorities to trust instead of the system's")
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        default=TIMEOUT_SECONDS,
        help="for one request (default %(default)g)",
    )
    parser.add_argument(
        "--retry-for",
        type=_seconds,
        metavar="SECONDS",
        default=RETRY_SECONDS,
        help="how long a batch is tried before the run ends with 75 (default %(default)g)",
    )
    parser.add_argument("--gzip", action="store_true", default=None, help="compress requests")
    parser.add_argument("--json", action="store_true", help="print what was done as one JSON object")
    parser.add_argument("--verbose", action="store_true", help="say what was done, also where no terminal is")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    return parser


def _options(given: argparse.Namespace) -> Options:
    names = {"endpoint": given.endpoint, "filename": given.file, "ca_file": given.ca_file, "gzip": given.gzip}
    return resolve(given.secret, {**names, "timeout": given.timeout})


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"must be seconds from 0 to 86,400, not {text!r}")
    return seconds
