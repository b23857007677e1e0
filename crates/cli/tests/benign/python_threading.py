# tries: threads, locks, queues and thread-local data
# expect: exit 0
import queue
import threading

work, done, lock, total = queue.Queue(), queue.Queue(), threading.Lock(), [0]


def worker():
    while (item := work.get()) is not None:
        with lock:
            total[0] += item
        done.put(item)


threads = [threading.Thread(target=worker) for _ in range(8)]
for thread in threads:
    thread.start()
for item in range(1000):
    work.put(item)
for _ in threads:
    work.put(None)
for thread in threads:
    thread.join()
print(total[0], done.qsize())
