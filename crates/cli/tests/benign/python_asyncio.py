# tries: an event loop with subprocesses, timers and signals
# expect: exit 0
import asyncio
import os
import signal


async def main():
    called = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, called.set)
    child = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.gather(called.wait(), asyncio.sleep(0.01))
    print(out, child.returncode)


asyncio.run(main())
