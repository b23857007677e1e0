# tries: a pool of processes with shared locks, values and queues
# expect: exit 0
import multiprocessing


def square(number):
    return number * number


if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(3) as pool:
            print(method, sum(pool.map(square, range(100))))
    value, box = multiprocessing.Value("i", 7), multiprocessing.Queue()
    child = multiprocessing.Process(target=box.put, args=(value.value,))
    child.start()
    print(box.get())
    child.join()
