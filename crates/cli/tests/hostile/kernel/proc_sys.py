# tries: change the kernel's settings; it only opens, and writes nothing
# expect: exit 0
# bare: escapes as root
import os

from probe import finish, may_not_open

for name in (
    "sys/kernel/core_pattern",
    "sys/kernel/modprobe",
    "sys/kernel/hostname",
    "sys/kernel/randomize_va_space",
    "sys/kernel/yama/ptrace_scope",
    "sys/vm/overcommit_memory",
    "sys/net/ipv4/ip_forward",
    "sys/fs/binfmt_misc/register",
    "sys/user/max_user_namespaces",
    "sysrq-trigger",
    "acpi/wakeup",
    "irq/default_smp_affinity",
    "scsi/scsi",
    "bus/pci/00/00.0",
):
    may_not_open(f"/proc/{name}", os.O_WRONLY)
finish()
