# tries: subprocesses, pipes, exit codes and signals between them
# expect: exit 0
import signal
import subprocess

print(subprocess.run(["sh", "-c", "cat; exit 3"], input=b"in", capture_output=True))
first = subprocess.Popen(["seq", "1000"], stdout=subprocess.PIPE)
second = subprocess.Popen(["wc", "-l"], stdin=first.stdout, stdout=subprocess.PIPE)
first.stdout.close()
print(second.communicate()[0].strip(), first.wait())
sleeper = subprocess.Popen(["sleep", "1000"])
sleeper.send_signal(signal.SIGTERM)
print(sleeper.wait())
