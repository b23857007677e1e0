use std::fs::{self, File};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use countersign_desk::{Folder, write_new};
use countersign_documents::request::{
    Cores, Destination, Given, Input, Language, Network, NewRequest, Output, RequestedBy, Risk,
    RiskLevel, Sensitivity, Stage, draft, judge,
};
use countersign_host::{Clock, Home, SystemClock};
use countersign_model::digest::Hasher;
use countersign_model::{Failure, Principal};
use serde_json::json;

use super::{ceilings, print_reasons};
use crate::Context;
use crate::commands::acting;
use crate::exit::Exit;
use crate::ui::{BOLD, Done, GOOD, paint, wrap};

/// Write a draft into drafts/, with the digests of its input files
///
/// The files are copied beside the draft. It is judged first, and what is rejected is not written;
/// a person approves it with `countersign request approve`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The last part of its id: lower-case letters, digits and hyphens
    slug: String,

    /// Why it is needed, in one sentence
    #[arg(long)]
    purpose: String,

    #[arg(long, value_enum)]
    language: LanguageArg,

    /// One command line; it runs in /in, and writes below /out
    #[arg(long)]
    command: String,

    /// A file that the command reads as /in/NAME; may be repeated
    #[arg(long = "input", value_name = "FILE")]
    inputs: Vec<PathBuf>,

    /// A file that the command writes below /out, as PATH or PATH=DESCRIPTION; may be repeated
    #[arg(long = "output", value_name = "PATH")]
    outputs: Vec<String>,

    /// A host that it must reach, as host or host:port; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,

    /// Cores
    #[arg(long, default_value = "1")]
    cpu: u32,

    /// Megabytes
    #[arg(long, default_value = "256")]
    memory: u32,

    /// Seconds
    #[arg(long, default_value = "60")]
    time: u32,

    #[arg(long, value_enum, default_value = "low")]
    risk: RiskArg,

    /// Why the risk is what it is
    #[arg(long, default_value = "Runs in a sandbox on declared inputs.")]
    justification: String,

    #[arg(long, value_enum, default_value = "internal")]
    sensitivity: SensitivityArg,

    /// Why the network is needed
    #[arg(long, default_value = "none")]
    network_rationale: String,

    /// Who drafts it [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LanguageArg {
    Python,
    Node,
    Ts,
    Go,
    Ruby,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RiskArg {
    Low,
    Medium,
    High,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SensitivityArg {
    Public,
    Internal,
    Confidential,
}

pub(super) fn run(context: &Context, args: &NewArgs) -> Done<Exit> {
    let ui = context.ui;
    let home = Home::open(&context.home)?;
    let new = args.request()?;
    let folder = Folder::Drafts.make(home.path())?;
    let (text, file_name) = (draft(&new), new.file_name());
    let path = folder.join(&file_name);
    let given = Given {
        file_name: Some(&file_name),
        now: SystemClock.now(),
        ceilings: ceilings(home.path())?,
        stage: Stage::Draft,
    };
    // Judged before anything is written: what is rejected leaves nothing behind.
    let reasons = judge(text.as_bytes(), &given).reasons().to_vec();
    let accepted = reasons.is_empty();
    if accepted {
        copy_inputs(&folder.join(new.id()), &args.inputs)?;
        write_new(&path, text.as_bytes())?;
    }
    if ui.json {
        let outcome = if accepted { "ACCEPT" } else { "REJECT" };
        let file = path.display().to_string();
        ui.json(&json!({
            "request": new.id(), "file": file, "outcome": outcome, "reasons": reasons,
        }))?;
    } else if accepted {
        ui.line(wrap(&format!("{} {}", paint(GOOD, "drafted:"), path.display()), 2))?;
        let hint =
            format!("a person approves it with `countersign request approve {}`", path.display());
        ui.line(wrap(&format!("{} {hint}", paint(BOLD, "hint:")), 0))?;
    } else {
        let reasons: Vec<_> = reasons.iter().map(|reason| json!(reason)).collect();
        print_reasons(ui, &path, &reasons)?;
        ui.line("nothing was written")?;
    }
    Ok(if accepted { Exit::Done } else { Exit::Invalid })
}

impl NewArgs {
    fn request(&self) -> Result<NewRequest, Failure> {
        let by_human = acting(self.principal.clone())?.is_human();
        let inputs: Result<Vec<_>, _> = self.inputs.iter().map(|path| input(path)).collect();
        Ok(NewRequest {
            slug: self.slug.clone(),
            created: SystemClock.now(),
            requested_by: if by_human { RequestedBy::Human } else { RequestedBy::CoreDraft },
            purpose: self.purpose.clone(),
            language: self.language.into(),
            network: self.network()?,
            cpu_limit: Cores { thousandths: self.cpu.saturating_mul(1000) },
            memory_limit_mb: self.memory,
            time_limit_sec: self.time,
            inputs: inputs?,
            outputs: self.outputs.iter().map(|text| output(text)).collect(),
            claims: Vec::new(),
            command: self.command.clone(),
            risk: Risk {
                level: self.risk.into(),
                justification: self.justification.clone(),
                sensitivity: self.sensitivity.into(),
                network_rationale: self.network_rationale.clone(),
            },
        })
    }

    fn network(&self) -> Result<Network, Failure> {
        if self.hosts.is_empty() {
            return Ok(Network::None);
        }
        self.hosts
            .iter()
            .map(|host| destination(host))
            .collect::<Result<_, _>>()
            .map(Network::Allowlist)
    }
}

fn destination(text: &str) -> Result<Destination, Failure> {
    let (host, port) = text.split_once(':').unwrap_or((text, "443"));
    let port = port.parse().map_err(|_| {
        Failure::validation("HOST_INVALID", format!("`{text}` is not a host"))
            .hint("write host or host:port")
    })?;
    Ok(Destination { host: host.to_owned(), port })
}

fn output(text: &str) -> Output {
    let (path, description) = text.split_once('=').unwrap_or((text, ""));
    let path = path.strip_prefix("/out/").unwrap_or(path);
    Output { path: path.to_owned(), description: description.to_owned() }
}

fn input(path: &Path) -> Result<Input, Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let sha256 =
        File::open(path).and_then(Hasher::of_all).map_err(|error| unreadable(path, &error))?;
    Ok(Input { name, sha256 })
}

fn copy_inputs(folder: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    if inputs.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|error| unreadable(folder, &error))?;
    for path in inputs {
        let place = folder.join(path.file_name().unwrap_or_default());
        fs::copy(path, &place).map_err(|error| unreadable(path, &error))?;
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be copied: {error}", path.display());
    Failure::validation("INPUT_MISSING", message).hint("name files that are there")
}

impl From<LanguageArg> for Language {
    fn from(language: LanguageArg) -> Self {
        match language {
            LanguageArg::Python => Language::Python,
            LanguageArg::Node => Language::Node,
            LanguageArg::Ts => Language::Ts,
            LanguageArg::Go => Language::Go,
            LanguageArg::Ruby => Language::Ruby,
        }
    }
}

impl From<RiskArg> for RiskLevel {
    fn from(level: RiskArg) -> Self {
        match level {
            RiskArg::Low => RiskLevel::Low,
            RiskArg::Medium => RiskLevel::Medium,
            RiskArg::High => RiskLevel::High,
        }
    }
}

impl From<SensitivityArg> for Sensitivity {
    fn from(sensitivity: SensitivityArg) -> Self {
        match sensitivity {
            SensitivityArg::Public => Sensitivity::Public,
            SensitivityArg::Internal => Sensitivity::Internal,
            SensitivityArg::Confidential => Sensitivity::Confidential,
        }
    }
}
