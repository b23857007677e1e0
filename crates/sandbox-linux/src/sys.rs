//! Every system call that nothing safe offers, one function each. The only `unsafe` of the project.

#![allow(unsafe_code, reason = "this is the place for it")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use rustix::mount::MountFlags;
use rustix::process::Pid;

/// Room for a child that shares our memory. Only what is used of it takes memory.
const STACK: usize = 1 << 20;
/// Beneath it, so that whoever needs more is stopped instead of writing into other memory.
const GUARD: usize = 64 << 10;

/// Memory for the stack of a child.
struct Stack(*mut c_void);

impl Stack {
    fn new() -> io::Result<Self> {
        let (read_write, private) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), GUARD + STACK, read_write, private | libc::MAP_STACK, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Stack(start);
        // SAFETY: the beginning of our own new mapping, which nobody uses.
        check(unsafe { libc::mprotect(start, GUARD, libc::PROT_NONE) })?;
        Ok(stack)
    }

    /// Stacks grow down from here. Page sizes are multiples of what the ABI asks for.
    fn top(&self) -> *mut c_void {
        self.0.wrapping_byte_add(GUARD + STACK)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which no living process uses as its stack any more.
        unsafe { libc::munmap(self.0, GUARD + STACK) };
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn check_long(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Starts a child that shares our memory while we stand still, until it ends or becomes another
/// program. `work` returns the exit code of a child that did not become one.
///
/// Standing still is what makes sharing sound: of the two, only one ever runs, so the child may do
/// whatever ordinary code may, and what it leaves in memory can be read afterwards.
pub(crate) fn run_in_child(flags: c_int, work: &mut dyn FnMut() -> c_int) -> io::Result<Pid> {
    let stack = Stack::new()?;
    let mut argument: &mut dyn FnMut() -> c_int = work;
    let flags = flags | libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: CLONE_VFORK suspends us until the child has ended or executed a program, so `stack`
    // and `argument` outlive its use of them and nothing else touches them meanwhile. The process
    // has one thread, so no lock is held by a thread that the child does not have.
    let pid = unsafe {
        libc::clone(enter_child, stack.top(), flags, ptr::from_mut(&mut argument).cast::<c_void>())
    };
    drop(stack);
    check(pid)?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("a child without a number"))
}

extern "C" fn enter_child(argument: *mut c_void) -> c_int {
    // SAFETY: `run_in_child` passes a pointer to a live `&mut dyn FnMut`, which only we use.
    let work = unsafe { &mut *argument.cast::<&mut dyn FnMut() -> c_int>() };
    // A panic must not unwind into the frames of a caller that is suspended beneath us.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(70)
}

/// Leaves namespaces for new ones. The process must have one thread only.
pub(crate) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: takes no pointers. Descriptors and memory stay shared or not as they were: callers
    // pass namespace flags only.
    check(unsafe { libc::unshare(flags) })
}

/// A program with its arguments and environment, as the kernel wants to see them. Made ahead,
/// because whatever a process that shares our memory allocates on its way into another program
/// stays behind in ours.
#[derive(Debug)]
pub(crate) struct Executable {
    path: CString,
    arguments: CStrings,
    environment: CStrings,
}

#[derive(Debug)]
struct CStrings {
    strings: Vec<CString>,
    /// To the contents of `strings`, which nobody changes, and a null pointer.
    pointers: Vec<*const c_char>,
}

impl CStrings {
    fn of(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect();
        CStrings { strings, pointers }
    }
}

impl Executable {
    pub(crate) fn new(path: CString, arguments: Vec<CString>, environment: Vec<CString>) -> Self {
        let (arguments, environment) = (CStrings::of(arguments), CStrings::of(environment));
        Executable { path, arguments, environment }
    }

    pub(crate) fn path(&self) -> &CString {
        &self.path
    }

    /// The program as its caller named it.
    pub(crate) fn name(&self) -> String {
        self.arguments.strings.first().map_or_else(String::new, |s| s.to_string_lossy().into())
    }

    /// Becomes this program. Returns only to say why not.
    pub(crate) fn execute(&self) -> io::Error {
        let (arguments, environment) = (&self.arguments.pointers, &self.environment.pointers);
        // SAFETY: both arrays end with a null pointer and every other pointer is a live C string.
        unsafe { libc::execve(self.path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// Changes flags of a mount and of all mounts below it.
pub(crate) fn set_mount_flags(target: &str, add: MountFlags) -> io::Result<()> {
    let target = CString::new(target)?;
    let attr_set = [
        (MountFlags::RDONLY, libc::MOUNT_ATTR_RDONLY),
        (MountFlags::NOSUID, libc::MOUNT_ATTR_NOSUID),
        (MountFlags::NODEV, libc::MOUNT_ATTR_NODEV),
        (MountFlags::NOEXEC, libc::MOUNT_ATTR_NOEXEC),
    ];
    let wanted = attr_set.iter().filter(|(flag, _)| add.contains(*flag));
    let attributes = libc::mount_attr {
        attr_set: wanted.fold(0, |all, (_, attribute)| all | attribute),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a live C string, and the structure is passed with its own size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            target.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check_long(result).map(|_| ())
}

/// Marks every descriptor from `first` on to be closed when the process becomes another program.
pub(crate) fn close_on_execute(first: u32) -> io::Result<()> {
    // SAFETY: takes no pointers, and closes nothing now.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    check_long(result).map(|_| ())
}

/// Puts a landlock ruleset into force for this thread and all that it starts.
pub(crate) fn landlock_restrict_self(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes a descriptor and no pointers.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) };
    check_long(result).map(|_| ())
}

/// The version of landlock that the kernel speaks; 0 for none.
pub(crate) fn landlock_version() -> u32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads no structure and makes no descriptor.
    let result = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<c_void>(), 0usize, VERSION)
    };
    u32::try_from(result).unwrap_or(0)
}

/// Puts a filter of system calls into force for this thread and all that it starts.
pub(crate) fn install_filter(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program points to `len` live instructions, which the kernel copies.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0u32, &raw const program)
    };
    check_long(result).map(|_| ())
}

/// Blocks the signal of ended children and returns a descriptor that tells of it instead.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    let mut set = empty_signal_set();
    // SAFETY: the set is initialised, and the old mask is not asked for.
    unsafe {
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()))?;
    }
    // SAFETY: the set is initialised; the descriptor is new and ours.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    check(fd)?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn empty_signal_set() -> libc::sigset_t {
    // SAFETY: an all-zero set is a valid value, which sigemptyset then makes the empty one.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        set
    }
}

/// Signals as a program expects to find them: none blocked, none ignored.
pub(crate) fn reset_signals() -> io::Result<()> {
    let set = empty_signal_set();
    // SAFETY: setting the default disposition installs no handler of ours.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut()))
    }
}

/// Sends a signal to every process that this one may signal, itself and the first one excepted.
pub(crate) fn signal_everyone(signal: c_int) -> io::Result<()> {
    // SAFETY: takes no pointers. In a process namespace of our own nobody else is reached.
    check(unsafe { libc::kill(-1, signal) })
}

/// How a child ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    pub(crate) pid: i32,
    pub(crate) status: c_int,
}

/// Takes leave of one child that has ended, if there is one.
pub(crate) fn reap() -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: `status` is a live integer.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then_some(Reaped { pid, status })
}

/// Waits until there are no children left.
pub(crate) fn reap_everyone() {
    let mut status = 0;
    // SAFETY: `status` is a live integer.
    while unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) } > 0 {}
}

/// Waits for one particular child.
pub(crate) fn wait_for(pid: Pid) -> io::Result<c_int> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a live integer.
        let result = unsafe { libc::waitpid(pid.as_raw_nonzero().get(), &raw mut status, 0) };
        match check(result) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(status),
        }
    }
}

/// Exit code or signal of a wait status.
pub(crate) fn decode_status(status: c_int) -> Result<i32, i32> {
    if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status))
    } else {
        Err(libc::WTERMSIG(status))
    }
}

/// Processor time in microseconds and the largest resident size in bytes of children that ended.
pub(crate) fn children_usage() -> (u64, u64) {
    // SAFETY: an all-zero structure is a valid value that the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let micros = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    let cpu = micros(usage.ru_utime) + micros(usage.ru_stime);
    (cpu.try_into().unwrap_or(0), u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024)
}

/// Switches the loopback interface of this network namespace on.
pub(crate) fn raise_loopback(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an all-zero request is a valid value; the name fits and is ended by a zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = byte.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the request outlives the call, which reads a name and flags from it.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) })
}

/// The number of clock ticks in a second, as /proc counts them.
pub(crate) fn clock_ticks() -> u64 {
    // SAFETY: takes no pointers.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100)
}
