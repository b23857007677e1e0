//! The lists. Add a call only with the program that needs it; a line without a good reason goes.

/// Calls that belong together, and why they are on their list.
pub(super) struct Line {
    pub(super) reason: &'static str,
    pub(super) calls: &'static [(&'static str, libc::c_long)],
}

macro_rules! lines {
    ($($reason:literal: $($call:ident)+;)*) => {
        &[$(Line { reason: $reason, calls: &[$((stringify!($call), libc::$call)),+] }),*]
    };
}

/// What every program may do.
#[rustfmt::skip]
pub(super) const ALLOWED: &[Line] = lines! {
    "reading and writing": SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64;
    "reading and writing at a place, several buffers": SYS_preadv SYS_pwritev SYS_preadv2 SYS_pwritev2;
    "moving within a file": SYS_lseek;
    "opening and closing": SYS_openat SYS_openat2 SYS_close SYS_close_range;
    "copying descriptors": SYS_dup SYS_dup3 SYS_fcntl;
    "pipes between processes": SYS_pipe2 SYS_splice SYS_tee;
    "copying files": SYS_sendfile SYS_copy_file_range;
    "what a file is": SYS_fstat SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs SYS_readlinkat;
    "whether a file may be used": SYS_faccessat SYS_faccessat2;
    "listing directories": SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir;
    "making and removing names": SYS_mkdirat SYS_unlinkat SYS_renameat SYS_renameat2 SYS_linkat SYS_symlinkat;
    "named pipes; devices are refused by the kernel": SYS_mknodat;
    "size of files": SYS_truncate SYS_ftruncate SYS_fallocate SYS_fadvise64 SYS_readahead;
    "writing back": SYS_fsync SYS_fdatasync SYS_sync SYS_syncfs SYS_sync_file_range SYS_msync;
    "rights of own files": SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_umask SYS_utimensat;
    "chmod of links, asked by newer libraries": SYS_fchmodat2;
    "locks on files": SYS_flock;
    "attributes of own files": SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr;
    "changing attributes of own files, as copying does": SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr;
    "memory": SYS_brk SYS_mmap SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_mincore;
    "memory that stays, up to its limit": SYS_mlock SYS_mlock2 SYS_munlock SYS_mlockall SYS_munlockall;
    "memory keys, used by some language runtimes": SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect;
    "barriers between threads, used by garbage collectors": SYS_membarrier;
    "where memory is, asked by runtimes at start": SYS_get_mempolicy;
    "becoming another program": SYS_execve;
    "ending": SYS_exit SYS_exit_group;
    "waiting for children": SYS_wait4 SYS_waitid;
    "who am I": SYS_getpid SYS_getppid SYS_gettid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getgroups;
    "who am I, in full": SYS_getresuid SYS_getresgid SYS_getpgid SYS_getsid;
    "changing to the same identity; there is no other": SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_setfsuid SYS_setfsgid;
    "groups and sessions of own processes": SYS_setpgid SYS_setsid;
    "reading own capabilities; there are none": SYS_capget;
    "names, death signals and the like of the own process": SYS_prctl;
    "restricting oneself further": SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self;
    "what was used so far": SYS_getrusage;
    "scheduling of own threads": SYS_sched_yield SYS_sched_getaffinity SYS_sched_setaffinity SYS_sched_getparam SYS_sched_setparam;
    "scheduling policy of own threads": SYS_sched_getscheduler SYS_sched_setscheduler SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_rr_get_interval SYS_sched_getattr SYS_sched_setattr;
    "being nicer": SYS_getpriority SYS_setpriority SYS_ioprio_get SYS_ioprio_set;
    "which processor": SYS_getcpu;
    "thread start and end": SYS_set_tid_address SYS_set_robust_list SYS_get_robust_list SYS_rseq;
    "locks between threads": SYS_futex SYS_futex_waitv;
    "signals": SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_sigaltstack;
    "signals to processes of this sandbox; no other is visible": SYS_kill SYS_tgkill SYS_tkill SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo;
    "processes as descriptors": SYS_pidfd_open SYS_pidfd_send_signal;
    "continuing after a signal": SYS_restart_syscall;
    "reading clocks": SYS_clock_gettime SYS_clock_getres SYS_gettimeofday SYS_times;
    "sleeping": SYS_nanosleep SYS_clock_nanosleep;
    "timers": SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete SYS_getitimer SYS_setitimer;
    "timers as descriptors": SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime;
    "waiting for descriptors": SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2;
    "events as descriptors": SYS_eventfd2 SYS_signalfd4;
    "using sockets; which ones can be made is decided elsewhere": SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_connect SYS_shutdown;
    "talking over sockets": SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_sendmmsg SYS_recvmmsg;
    "about sockets": SYS_getsockname SYS_getpeername SYS_getsockopt SYS_setsockopt;
    "random numbers": SYS_getrandom;
    "about the system": SYS_uname SYS_sysinfo;
};

/// Forms that older libraries on this architecture still use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const OLD: &[Line] = lines! {
    "old forms of opening": SYS_open SYS_creat SYS_access SYS_readlink;
    "old forms of stat": SYS_stat SYS_lstat;
    "old forms of changing names": SYS_mkdir SYS_rmdir SYS_unlink SYS_rename SYS_link SYS_symlink SYS_mknod;
    "old forms of changing rights": SYS_chmod SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat;
    "old forms of descriptors": SYS_dup2 SYS_pipe SYS_eventfd SYS_signalfd SYS_epoll_create SYS_epoll_wait;
    "old forms of waiting": SYS_poll SYS_select SYS_pause SYS_alarm SYS_getdents SYS_time;
    "old forms of starting processes": SYS_fork SYS_vfork SYS_getpgrp;
    "old forms of limits": SYS_getrlimit SYS_setrlimit;
    "thread-local storage": SYS_arch_prctl;
};

#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD: &[Line] = &[];

/// Memory that no process maps escapes rlimits and sampling: only where a control group counts it.
#[rustfmt::skip]
pub(super) const HIDDEN_MEMORY: &[Line] = lines! {
    "files in memory": SYS_memfd_create;
    "pages given to pipes": SYS_vmsplice;
    "old shared memory, in a namespace of its own": SYS_shmget SYS_shmat SYS_shmdt SYS_shmctl;
    "old semaphores and queues, in a namespace of their own": SYS_semget SYS_semop SYS_semctl SYS_semtimedop SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl;
};

/// What must never work, each with what it could do.
#[rustfmt::skip]
pub(super) const REFUSED: &[Line] = lines! {
    "looking into other processes": SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_pidfd_getfd SYS_kcmp;
    "changing what is mounted": SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot;
    "changing what is mounted, newer forms": SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_move_mount SYS_open_tree SYS_mount_setattr;
    "entering or making namespaces": SYS_unshare SYS_setns;
    "gaining capabilities or groups": SYS_capset SYS_setgroups;
    "opening files by number, past all directories": SYS_open_by_handle_at SYS_name_to_handle_at;
    "programs inside of the kernel": SYS_bpf;
    "kernel memory through counters": SYS_perf_event_open;
    "stopping the kernel in the middle of a copy": SYS_userfaultfd;
    "keys of the user outside": SYS_add_key SYS_request_key SYS_keyctl;
    "changing the kernel": SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load;
    "the machine as a whole": SYS_reboot SYS_swapon SYS_swapoff SYS_acct SYS_quotactl SYS_syslog SYS_vhangup;
    "the machine's clock and names": SYS_settimeofday SYS_clock_settime SYS_adjtimex SYS_clock_adjtime SYS_sethostname SYS_setdomainname;
    "watching files, which are also the machine's: who runs what would be seen": SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch SYS_fanotify_init SYS_fanotify_mark;
    "moving memory of other processes": SYS_migrate_pages SYS_move_pages;
    "queues that outlive their processes": SYS_mq_open SYS_mq_unlink;
};
