# tries: questions that libraries ask about the system they run on
# expect: exit 0
import locale
import os
import platform
import resource
import ssl
import time

print(os.getuid(), os.getgid(), platform.system(), platform.machine())
print(os.cpu_count() > 0, len(os.sched_getaffinity(0)) > 0)
print(locale.getpreferredencoding(), "é".encode())
print(len(os.urandom(16)), time.time() > 0, time.monotonic() > 0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0)
print(ssl.create_default_context() is not None)
print(os.statvfs("/workspace").f_bsize > 0, os.access("/workspace", os.W_OK))
print(open("/dev/null").read(), len(open("/dev/zero", "rb").read(8)))
