//! From a request to the order that the host carries out.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use countersign_documents::request::{Input, Language, Network, Request, RiskLevel};
use countersign_host::order::{Order, OrderInput};
use countersign_model::{Failure, ResourceLimits};
use rustix::fs::OFlags;

use crate::{Desk, Draft};

/// Streams may be long: all but their beginning becomes an artifact.
const MAX_OUTPUT: u64 = 256 << 20;

impl Desk<'_> {
    /// Takes in the files that a request names, and says what is to be done.
    pub(crate) fn order(&self, draft: &Draft, inputs: Option<&Path>) -> Result<Order, Failure> {
        let request = &draft.request;
        let taken: Result<Vec<_>, _> =
            request.inputs.iter().map(|input| self.take(draft, inputs, input)).collect();
        Ok(Order {
            command: command(request),
            document: draft.text.clone(),
            environment: environment(request),
            hosts: hosts(&request.network),
            id: request.id.clone(),
            inputs: taken?,
            limits: limits(request),
            outputs: request.outputs.iter().map(|output| output.path.clone()).collect(),
            people: if request.risk.level == RiskLevel::High { 2 } else { 1 },
        })
    }

    /// What is hashed is what is kept, and what is kept is what the command will see.
    fn take(
        &self,
        draft: &Draft,
        inputs: Option<&Path>,
        input: &Input,
    ) -> Result<OrderInput, Failure> {
        let path = find(draft, inputs, &input.name)?;
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let missing = |why: &dyn std::fmt::Display| {
            let message = format!("the input {} cannot be read: {why}", path.display());
            Failure::validation("INPUT_MISSING", message)
        };
        let file = file.map_err(|error| missing(&error))?;
        let found = file.metadata().map_err(|error| missing(&error))?;
        if !found.is_file() {
            return Err(missing(&"it is not a regular file"));
        }
        let most = u64::from(self.host.home().config.requests.max_input_mb) << 20;
        if found.len() > most {
            return Err(too_large(&path, found.len(), most));
        }
        // It may grow while it is read.
        let taken = self.host.take_input(&input.name, file.take(most + 1))?;
        if taken.sha256 == input.sha256 {
            return Ok(taken);
        }
        let message = format!(
            "the input {} has the digest {}, and the document names {}",
            path.display(),
            taken.sha256,
            input.sha256
        );
        Err(Failure::validation("INPUT_CHANGED", message)
            .hint("bring the file that was meant, or correct the document"))
    }
}

fn too_large(path: &Path, size: u64, most: u64) -> Failure {
    let message = format!("the input {} has {size} bytes, more than {most}", path.display());
    Failure::validation("INPUT_TOO_LARGE", message)
        .hint("raise `requests.max_input_mb` in countersign.toml, or bring less")
}

/// Beside the document, in a folder called like it or not, unless a folder was named.
fn find(draft: &Draft, inputs: Option<&Path>, name: &str) -> Result<PathBuf, Failure> {
    if let Some(inputs) = inputs {
        return Ok(inputs.join(name));
    }
    let beside = draft.path.parent().unwrap_or(Path::new(""));
    let places = [beside.join(&draft.request.id).join(name), beside.join(name)];
    let [first, _] = &places;
    let hint = format!("put it at {}, or name its folder with --inputs", first.display());
    let message = format!("the input `{name}` was not found");
    places
        .iter()
        .find(|place| place.symlink_metadata().is_ok())
        .cloned()
        .ok_or_else(|| Failure::validation("INPUT_MISSING", message).hint(hint))
}

/// Machines call Python 3 by this name; `python` may be something older, or nothing.
fn command(request: &Request) -> Vec<String> {
    let mut words = request.command.words.clone();
    if let Some(first) = words.first_mut().filter(|first| *first == "python") {
        "python3".clone_into(first);
    }
    words
}

/// Nothing is installed or fetched on the way, even where a network is allowed. Go builds with as
/// many processes as it may use cores, whatever the machine has, and never rewrites its inputs.
fn environment(request: &Request) -> BTreeMap<String, String> {
    let cores = request.cpu_limit.thousandths.div_ceil(1000).max(1).to_string();
    let settings: &[(&str, &str)] = match request.language {
        Language::Python => &[("PIP_NO_INDEX", "1"), ("PYTHONUNBUFFERED", "1")],
        Language::Node | Language::Ts => &[("NPM_CONFIG_OFFLINE", "true"), ("NO_COLOR", "1")],
        Language::Go => &[
            ("CGO_ENABLED", "0"),
            ("GOCACHE", "/tmp/go-cache"),
            ("GOENV", "off"),
            ("GOFLAGS", "-mod=readonly"),
            ("GOMAXPROCS", &cores),
            ("GOPATH", "/tmp/go"),
            ("GOPROXY", "off"),
            ("GOTOOLCHAIN", "local"),
            ("GOTELEMETRY", "off"),
        ],
        Language::Ruby => &[("BUNDLE_FROZEN", "true")],
    };
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn hosts(network: &Network) -> Vec<String> {
    match network {
        Network::None => Vec::new(),
        Network::Allowlist(hosts) => {
            hosts.iter().map(|to| format!("{}:{}", to.host, to.port)).collect()
        }
    }
}

/// Cores are held by processor time: as much as that many cores give in the time allowed.
fn limits(request: &Request) -> ResourceLimits {
    let time = u64::from(request.time_limit_sec) * 1000;
    let cores = u64::from(request.cpu_limit.thousandths);
    ResourceLimits {
        max_cpu_time: Some((time * cores / 1000).max(1)),
        max_execution_time: time,
        max_memory: u64::from(request.memory_limit_mb) << 20,
        max_output: Some(MAX_OUTPUT),
        ..build(request.language)
    }
}

/// Go builds before it runs: its standard library too where that comes as source, which makes some
/// thousand files, some of them large, that are gone after the run.
fn build(language: Language) -> ResourceLimits {
    match language {
        Language::Go => ResourceLimits {
            max_file_descriptors: Some(1024),
            max_file_size: Some(256 << 20),
            max_inodes: Some(100_000),
            max_processes: Some(128),
            max_threads: Some(1024),
            max_total_size: Some(1 << 30),
            ..ResourceLimits::default()
        },
        _ => ResourceLimits::default(),
    }
}
