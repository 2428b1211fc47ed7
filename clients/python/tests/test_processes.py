"""Forks and ends of processes: nothing is lost, nothing is sent twice, nothing is held up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from programs import run, run_file
from scripted_service import Reply, ScriptedService

START = "import sys, os\nfrom hookline_client import Client\n"


def sent(service: ScriptedService) -> Counter[str]:
    """How often each event arrived, by name."""
    return Counter(event["event"] for event in service.events)


def test_the_end_of_a_process_sends_what_waits(service: ScriptedService) -> None:
    """Without close or flush, and with a client that nobody holds any more."""
    run(START + "c = Client('wk', endpoint=sys.argv[1]); c.track('u', 'A')\n"
        "Client('wk', endpoint=sys.argv[1]).track('u', 'B')", service.url)  # fmt: skip
    assert sent(service) == {"A": 1, "B": 1}


def test_events_of_an_exit_handler_are_sent(service: ScriptedService) -> None:
    """Even the first of a client: newer Pythons start no thread any more then."""
    program = "import atexit\nc = Client('wk', endpoint=sys.argv[1])\natexit.register(lambda: c.track('u', 'Bye'))"
    run(START + program, service.url)
    assert sent(service) == {"Bye": 1}


@pytest.mark.parametrize("first", ["", "c = Client('wk', endpoint=sys.argv[1])"], ids=["first", "second"])
def test_events_of_a_client_that_an_exit_handler_makes_are_sent(service: ScriptedService, first: str) -> None:
    """Whether there was one before or not: nothing that is registered then is called any more."""
    program = f"""
import atexit
def bye():
    global made
    made = Client('wk', endpoint=sys.argv[1])
    made.track('u', 'Bye')
    Client('wk', endpoint=sys.argv[1]).track('u', 'Held by nobody')
atexit.register(bye)
{first}"""
    run(START + program, service.url)
    assert sent(service) == {"Bye": 1, "Held by nobody": 1}


def test_an_exit_handler_that_imports_the_library_does_not_hold_up_the_end(service: ScriptedService) -> None:
    """Its client goes when the interpreter has no more threads to give, and a new one would be waited for for ever."""
    program = """
import atexit, sys
def bye():
    global made
    from hookline_client import Client
    made = Client('wk', endpoint=sys.argv[1])
    made.track('u', 'Bye')
    made.flush()
atexit.register(bye)
"""
    run(program, service.url)
    assert sent(service) == {"Bye": 1}


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_the_end_of_a_process_is_bounded(fault: str) -> None:
    """A service that hangs holds it for the exit timeout: with 0.1 s instead of the 3000 s an exchange may take."""
    with ScriptedService(*[Reply(fault=fault)] * 5) as service:
        program = "c = Client('wk', endpoint=sys.argv[1], timeout=3000, exit_timeout=0.1); c.track('u', 'A')"
        assert run(START + program, service.url).stderr.count("closed") == 0


def test_the_end_of_a_process_without_a_service_is_bounded() -> None:
    """No deadlock, and nothing on stderr: whoever wants to know has a handler or a log."""
    program = (
        "c = Client('wk', endpoint='http://127.0.0.1:1', exit_timeout=0.1)\nfor _ in range(500): c.track('u', 'A')"
    )
    ended = run(START + program)
    assert (ended.stdout, ended.stderr) == ("", "")


def test_a_handler_that_exits_at_the_end_of_a_process_keeps_no_other_client_from_sending(
    service: ScriptedService,
) -> None:
    """The first client's events are lost, which its handler hears of; the second client's turn comes after."""
    program = """
end = lambda code, reason: sys.exit(1)
first = Client('wk', endpoint='http://127.0.0.1:1', batch_size=1, exit_timeout=0.1, error_handler=end)
for _ in range(3): first.track('u', 'Lost')
second = Client('wk', endpoint=sys.argv[1])
second.track('u', 'Kept')"""
    run(START + program, service.url)
    assert sent(service) == {"Kept": 1}


def test_many_clients_delay_the_end_no_longer_than_one() -> None:
    """Twenty whose service hangs, with 2 s each: they share the time."""
    with ScriptedService(*[Reply(fault="hang")] * 20) as service:
        program = """
import time, atexit
began = []
atexit.register(lambda: print(time.monotonic() - began[0]))  # runs after the library's, which is registered later
clients = [Client('wk', endpoint=sys.argv[1], timeout=3000, exit_timeout=2, flush_at=1) for _ in range(20)]
for c in clients: c.track('u', 'A')
began.append(time.monotonic())
"""
        assert float(run(START + program, service.url).stdout) < 20 * 2.0


def test_sigterm_is_left_alone(service: ScriptedService) -> None:
    """The default still kills; a program's own handler is still the program's."""
    program = (
        START
        + """
import signal
before = signal.getsignal(signal.SIGTERM)
c = Client('wk', endpoint=sys.argv[1]); c.track('u', 'A'); c.flush()
assert signal.getsignal(signal.SIGTERM) is before
os.kill(os.getpid(), signal.SIGTERM)
signal.pause()
"""
    )
    assert run(program, service.url, check=False).returncode == -15


def test_a_signal_may_close_in_the_middle_of_init() -> None:
    """A program that is ended while it starts: the handler runs on the thread that is in ``init``, and returns."""
    program = """
import signal
import hookline_client
def make(options, ledger):
    signal.raise_signal(signal.SIGTERM)
    raise SystemExit(0)
signal.signal(signal.SIGTERM, lambda *_: hookline_client.close())
hookline_client.init('wk', consumer=make)
"""
    run(program)


def test_a_signal_may_make_a_client_in_the_middle_of_the_first(service: ScriptedService) -> None:
    """As a handler does that reports the end of a program which is still starting."""
    program = """
import atexit, signal, sys
from hookline_client import Client
register = atexit.register
def signalled(function):
    if function.__module__ == 'hookline_client.lifecycle':
        signal.raise_signal(signal.SIGTERM)
    register(function)
def handler(*_):
    Client('wk', endpoint=sys.argv[1]).track('u', 'Ended')
atexit.register = signalled
signal.signal(signal.SIGTERM, handler)
Client('wk', endpoint=sys.argv[1]).track('u', 'Began')
"""
    run(program, service.url)
    assert sent(service) == {"Ended": 1, "Began": 1}


def test_a_signal_may_track_in_the_middle_of_a_look_up() -> None:
    """``socket`` has a name looked up in the call that needs it: a handler that makes a call there is not held up."""
    program = """
import signal, threading
from hookline_client import Client
client = Client('wk', endpoint='http://127.0.0.1:1', consumer='socket')
start = threading.Thread.start
def signalled(thread):
    threading.Thread.start = start
    signal.raise_signal(signal.SIGTERM)
    start(thread)
signal.signal(signal.SIGTERM, lambda *_: client.track('u', 'Ended'))
threading.Thread.start = signalled
client.track('u', 'E')
assert client.stats.dropped == 2
"""
    run(program)


@pytest.mark.parametrize("options", ["", "spool=sys.argv[1], "], ids=["memory", "spool"])
@pytest.mark.parametrize("handled", ["client.track('u', 'Signal')", "client.flush(30)", "fail()"])
def test_a_signal_may_call_or_raise_in_the_middle_of_the_first_call(tmp_path: Path, options: str, handled: str) -> None:
    """The thread is being started there. Two of them would send what the other does, and lose what neither does."""
    program = """
import signal, sys, threading, time
from hookline_client import Client
from hookline_client.testing import RecordingTransport
def fail():
    raise KeyboardInterrupt
start, is_signalled = threading.Thread.start, False
def signalled(thread):
    global is_signalled
    start(thread)
    if thread.name.startswith('hookline-client') and not is_signalled:
        is_signalled = True
        signal.raise_signal(signal.SIGTERM)
        is_signalled = False
transport = RecordingTransport()
client = Client('wk', OPTIONS transport=transport, batch_size=1)
signal.signal(signal.SIGTERM, lambda *_: HANDLED)
threading.Thread.start = signalled
for number in range(100):
    try:
        client.track('u', f'Event {number}')
    except KeyboardInterrupt:
        is_signalled = False
threading.Thread.start = start
client.flush(30)
for _ in range(1_000):
    names = [thread.name for thread in threading.enumerate()]
    if len(set(names)) == len(names): break
    time.sleep(0.01)
assert len(set(names)) == len(names), names
names = [event['event'] for event in transport.events if event['event'] != 'Signal']
assert names == [f'Event {number}' for number in range(100)], names
"""
    run(program.replace("OPTIONS", options).replace("HANDLED", handled), str(tmp_path / "spool"))


@pytest.mark.parametrize("options", ["", "spool=sys.argv[1], "], ids=["memory", "spool"])
def test_a_signal_may_flush_where_a_flush_begins_to_wait(tmp_path: Path, options: str) -> None:
    """It is over when the handler returns: nobody would wake the flush that goes on."""
    program = """
import signal, sys, threading
from hookline_client import Client
from hookline_client.testing import RecordingTransport
client = Client('wk', OPTIONS transport=RecordingTransport(), flush_after=3_600)
wait = threading.Condition.wait
def signalled(condition, timeout=None):
    if threading.current_thread() is threading.main_thread():
        threading.Condition.wait = wait
        signal.raise_signal(signal.SIGTERM)
    return wait(condition, timeout)
signal.signal(signal.SIGTERM, lambda *_: client.flush(30))
client.track('u', 'E')
threading.Condition.wait = signalled
result = client.flush(3_600)
assert client.stats.accepted == 1 and result.waiting == 0
"""
    run(program.replace("OPTIONS", options), str(tmp_path / "spool"))


def test_a_signal_may_close_a_spool_in_the_middle_of_a_call(tmp_path: Path) -> None:
    """The thread that sends cannot end before that call does: close does not wait for it, whatever time it was given,
    and the event of the call stays in the spool."""
    program = """
import os, signal, sys
from hookline_client import Client
from hookline_client.testing import RecordingTransport
from hookline_client.spool.box import Box
client = Client('wk', spool=sys.argv[1], transport=RecordingTransport())
client.track('u', 'First')
assert client.flush().accepted == 1
append = Box.append
def signalled(box, line):
    signal.raise_signal(signal.SIGTERM)
    append(box, line)
    assert b'Last' in open(os.path.join(box.folder, '0000000001.log'), 'rb').read()
    os._exit(0)
Box.append = signalled
signal.signal(signal.SIGTERM, lambda *_: client.close(3_600))
client.track('u', 'Last')
"""
    run(program, str(tmp_path / "spool"))


def test_a_signal_may_close_a_spool_in_the_middle_of_its_first_call(tmp_path: Path) -> None:
    """There is no thread yet that could let go of the box, and the call still writes to it: its event stays there."""
    program = """
import glob, os, signal, sys
from hookline_client import Client
from hookline_client.testing import RecordingTransport
client = Client('wk', spool=sys.argv[1], transport=RecordingTransport())
opened = os.open
def signalled(path, *more):
    file = opened(path, *more)
    if path.endswith('.log'):
        os.open = opened
        signal.raise_signal(signal.SIGTERM)
    return file
os.open = signalled
signal.signal(signal.SIGTERM, lambda *_: client.close(3_600))
assert client.track('u', 'Only') is not None
(segment,) = glob.glob(sys.argv[1] + '/*/*/*.log')
assert 'Only' in open(segment).read()
"""
    run(program, str(tmp_path / "spool"))


@pytest.mark.parametrize("end", ["client.flush(None)", "client.close(3_600)"])
def test_a_signal_may_flush_or_close_a_spool_in_the_middle_of_a_write(tmp_path: Path, end: str) -> None:
    """The call keeps the thread that sends from the box: the handler does not wait for it, and nothing is lost."""
    program = """
import glob, os, signal, sys
from hookline_client import Client
from hookline_client.testing import RecordingTransport
client = Client('wk', spool=sys.argv[1], transport=RecordingTransport(), flush_after=3_600)
client.track('u', 'First')
write = os.write
def signalled(file, data):
    os.write = write
    signal.raise_signal(signal.SIGTERM)
    written = write(file, data)
    (segment,) = glob.glob(sys.argv[1] + '/*/*/*.log')
    text = open(segment).read()
    assert 'First' in text and 'Last' in text
    return written
def handler(*_):
    assert END.waiting == 1
os.write = signalled
signal.signal(signal.SIGTERM, handler)
assert client.track('u', 'Last') is not None
"""
    run(program.replace("END", end), str(tmp_path / "spool"))


def test_a_signal_may_track_where_a_call_begins_to_wait_for_a_look_up() -> None:
    """The lock that it waits with is held there: the call of the handler takes it again."""
    program = """
import signal, socket, threading
from hookline_client import Client
client = Client('wk', endpoint='http://127.0.0.1:1', consumer='socket')
is_over = threading.Event()
look_up, start, wait = socket.getaddrinfo, threading.Thread.start, threading.Condition.wait
def slow(*arguments, **more):
    is_over.wait()
    return look_up(*arguments, **more)
def started(thread):
    start(thread)
    threading.Condition.wait = signalled
def signalled(condition, timeout=None):
    if threading.current_thread() is threading.main_thread():
        threading.Condition.wait = wait
        signal.raise_signal(signal.SIGTERM)
        is_over.set()
    return wait(condition, timeout)
socket.getaddrinfo, threading.Thread.start = slow, started
signal.signal(signal.SIGTERM, lambda *_: client.track('u', 'Ended'))
client.track('u', 'E')
assert client.stats.dropped == 2 and is_over.is_set()
"""
    run(program)


def test_a_forked_child_sends_its_own_and_not_its_parents(service: ScriptedService) -> None:
    """As with gunicorn --preload: the client is made before the fork, with events in its queue."""
    program = (
        START
        + """
c = Client('wk', endpoint=sys.argv[1])
c.track('u', 'Before')
for number in range(3):
    if os.fork() == 0:
        assert c.stats.queued == 0
        c.track('u', f'Child {number}')
        assert c.flush().accepted == 1
        os._exit(0)
for _ in range(3):
    assert os.wait()[1] == 0
c.track('u', 'After')
assert c.flush().accepted == 2
"""
    )
    run(program, service.url)
    assert sent(service) == {"Before": 1, "Child 0": 1, "Child 1": 1, "Child 2": 1, "After": 1}


def test_a_child_does_not_use_its_parents_connection(service: ScriptedService) -> None:
    """Two processes on one connection would mix their requests."""
    program = (
        START
        + """
c = Client('wk', endpoint=sys.argv[1])
c.track('u', 'A'); c.flush()
if os.fork() == 0:
    c.track('u', 'B'); c.flush(); os._exit(0)
os.wait()
c.track('u', 'C'); c.flush()
"""
    )
    run(program, service.url)
    assert {event["event"]: post.connection for post in service.posts for event in post.batch} == {
        "A": 1,
        "B": 2,
        "C": 1,
    }


def test_message_ids_differ_between_processes(service: ScriptedService) -> None:
    """A child that went on with its parent's ids would have its events dropped as repeats."""
    program = (
        START
        + """
c = Client('wk', endpoint=sys.argv[1])
for _ in range(4):
    if os.fork() == 0:
        for _ in range(50): c.track('u', 'A')
        c.flush(); os._exit(0)
for _ in range(4): os.wait()
"""
    )
    run(program, service.url)
    assert len({event["messageId"] for event in service.events}) == len(service.events) == 200


def test_forks_while_threads_track(service: ScriptedService) -> None:
    """A fork in the middle of other threads' calls leaves no lock held in the child, and the parent loses nothing."""
    program = (
        START
        + """
import threading
c = Client('wk', endpoint=sys.argv[1], flush_at=10, batch_size=50)
threads = [threading.Thread(target=lambda: [c.track('u', 'Parent') for _ in range(400)]) for _ in range(4)]
for t in threads: t.start()
for _ in range(10):
    if os.fork() == 0:
        c.track('u', 'Child')
        os._exit(0 if c.flush(30).accepted == 1 else 1)
for _ in range(10): assert os.wait()[1] == 0
for t in threads: t.join()
assert c.flush(30).waiting == 0
"""
    )
    run(program, service.url)
    assert sent(service) == {"Parent": 1600, "Child": 10}


def test_a_wrong_consumer_of_the_programs_own_hurts_no_other_client(service: ScriptedService) -> None:
    """It knows nothing of forks and raises at the end: the clients made before and after it go on all the same."""
    program = (
        START
        + """
class Wrong:
    def enqueue(self, message): return True
    def flush(self, timeout): return 0
    def close(self, timeout): raise OSError('wrong')
c = Client('wk', endpoint=sys.argv[1])
wrong = Client('wk', consumer=lambda options, ledger: Wrong())
d = Client('wk', endpoint=sys.argv[1])
child = os.fork()
name = 'Parent' if child else 'Child'
c.track('u', name); d.track('u', name)
if child: assert os.waitpid(child, 0)[1] == 0
else:
    c.flush(); d.flush(); os._exit(0)
"""
    )
    run(program, service.url)
    assert sent(service) == {"Parent": 2, "Child": 2}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_flush_at_their_end(service: ScriptedService, method: str, tmp_path: Path) -> None:
    """They end without the interpreter's exit handlers."""
    program = tmp_path / "program.py"
    program.write_text(
        START
        + f"""
import multiprocessing
c = Client('wk', endpoint=sys.argv[1])
def work(number):
    c.track('u', f'Child {{number}}')
if __name__ == '__main__':
    context = multiprocessing.get_context({method!r})
    children = [context.Process(target=work, args=(n,)) for n in range(2)]
    for child in children: child.start()
    for child in children: child.join()
    assert [child.exitcode for child in children] == [0, 0]
"""
    )
    run_file(program, service.url)
    assert sent(service) == {"Child 0": 1, "Child 1": 1}


def test_debug_analytics_turns_logging_on(service: ScriptedService) -> None:
    """Through logging, to stderr when the program has set up nothing else."""
    program = START + "c = Client('wk', endpoint=sys.argv[1]); c.track('u', 'A'); c.close()"
    assert '"event":"A"' in run(program, service.url, DEBUG="analytics").stderr
    assert '"event":"A"' in run(program, service.url, DEBUG="http,analytics").stderr
    assert run(program, service.url, DEBUG="http").stderr == ""
    own = "import logging; logging.basicConfig(format='own %(message)s')\n"
    assert run(own + program, service.url, DEBUG="analytics").stderr.startswith("own track")


def test_a_missing_key_is_a_line_in_the_log_and_nothing_more() -> None:
    """A program without its configuration still runs."""
    program = "import logging; logging.basicConfig()\n" + START
    ended = run(program + "c = Client(); print(c.track('u', 'A'), c.flush().ok, c.close().ok)")
    assert ended.stdout == "None True True\n"
    assert "write key" in ended.stderr


def test_importing_is_quick_and_takes_only_the_standard_library() -> None:
    """What takes long is imported when it is needed.

    So it takes about 30 ms of CPU, as much as a module that all others import; twice that would be something else.
    """
    program = """
import sys, time
before, began = set(sys.modules), time.process_time()
import {}
milliseconds = (time.process_time() - began) * 1000
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
late = {{"http", "ssl", "asyncio", "logging", "gzip", "dataclasses", "multiprocessing"}} & new
foreign = {{name for name in new if name not in sys.stdlib_module_names}} - {{"hookline_client"}}
print(milliseconds, late or "none", foreign or "none")
"""
    ours, others = (
        [run(program.format(name), PYTHONDONTWRITEBYTECODE="").stdout.split() for _ in range(8)]
        for name in ("hookline_client", "http.client")
    )
    assert {tuple(end[1:]) for end in ours} == {("none", "none")}
    assert min(float(end[0]) for end in ours) < max(30.0, 2 * min(float(end[0]) for end in others))


def test_no_descriptor_at_the_first_batch_is_a_shortage_that_passes(service: ScriptedService) -> None:
    """Try the batch again, as later ones: what sends is imported with it, and cannot be."""
    program = """
        import os, resource, sys, threading
        from hookline_client import Client
        told = []
        is_told = threading.Event()
        def on_error(code, reason):
            told.append(code)
            is_told.set()
        client = Client("wk", endpoint=sys.argv[1], flush_at=1, error_handler=on_error)
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        client.track("u1", "Test")
        is_told.wait(30)
        for descriptor in held:
            os.close(descriptor)
        print(client.flush(30)[:4], *told)
    """
    assert run(program, service.url).stdout == "(1, 0, 0, 0) connection_failed\n"
    assert len(service.events) == 1
