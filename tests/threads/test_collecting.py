import gc
import threading

import pytest

from langgraph_memory.threads.collecting import MANY, collecting_later


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_rests_and_is_as_it_was_afterwards(on):
    was = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(ValueError), collecting_later():
            assert not gc.isenabled()
            with collecting_later():
                assert not gc.isenabled()
            assert not gc.isenabled()
            raise ValueError
        assert gc.isenabled() is on
    finally:
        (gc.enable if was else gc.disable)()


def test_it_goes_on_when_the_last_of_several_threads_is_done():
    assert gc.isenabled()
    inside, leave = threading.Barrier(5), threading.Event()

    def rest() -> None:
        with collecting_later():
            inside.wait(10)
            leave.wait(10)

    threads = [threading.Thread(target=rest) for _ in range(4)]
    for thread in threads:
        thread.start()
    inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    for thread in threads:
        thread.join(10)
    assert gc.isenabled()


def test_what_many_messages_are_made_of_is_old_afterwards():
    assert gc.isenabled()
    with collecting_later(MANY):
        made = [[]]
    assert any(one is made for one in gc.get_objects(2))
