//! The HTTP host: runs for agents and people elsewhere.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use countersign_flow::Offers;
use countersign_host::Host;
use countersign_host::config::{ServeConfig, WebhookSignature};
use countersign_model::Failure;
use countersign_server::api::{
    Api, JournalShelf, Offered, Post, PostSettings, sample_secrets, sample_workflows, table,
};
use countersign_server::body::BodyBounds;
use countersign_server::clock::SystemClock;
use countersign_server::gate::{App, Closing};
use countersign_server::inflight::Inflight;
use countersign_server::limit::{Limiter, Rate, Rates};
use countersign_server::place::Place;
use countersign_server::serve::{Ended, TlsFiles};
use countersign_server::webhook::{SignatureForm, UrlPolicy};
use countersign_server::{Bounds, Edge, Settings};
use countersign_workflow::{Engine, Observer, Settings as EngineSettings};
use serde_json::json;

use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, DIM, Done, Ui, WARN, inert, paint};
use crate::{runs, sandbox, signals};

/// Serve runs over HTTP, until it is asked to stop
///
/// Whoever asks shows a key, made with `countersign key create`. It is reached from this machine
/// only, unless certificates are named under `[serve.tls]`; port 0 lets the system choose one.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,

    /// Further directories with workflows, beside `workflows/` in the home
    #[arg(long, value_name = "DIR")]
    workflows: Vec<PathBuf>,

    /// Offer what only tests of the protocol need: mock providers and sample seams
    #[arg(long)]
    conformance: bool,
}

/// The secret that a conformance suite looks for, where it shall know which.
const CANARY: &str = "OPENWOP_CANARY_SECRET_VALUE";

/// How long requests and calls that are at work may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long webhooks may take that are not sent yet.
const LAST_POST: Duration = Duration::from_secs(6);

pub(crate) fn run(context: &Context, args: &ServeArgs) -> Done<Exit> {
    let host = Arc::new(sandbox::open_host(&context.home)?);
    let config = host.home().config.serve.clone();
    let stop = signals::cancelled();
    let post = Post::open(Arc::clone(&host), post_settings(&config))?;
    let engine = engine(&host, args, &post)?;
    for (name, problems) in engine.library().broken() {
        let first = problems.first().map(ToString::to_string).unwrap_or_default();
        let words = format!("the workflow `{name}` is left out: {first}");
        context.ui.note(paint(WARN, inert(&words)));
    }
    let closing = Closing::default();
    let app = app(&engine, &config, &closing, post.clone())?;
    let settings = settings(args, &config)?;
    watch(stop, closing.clone());
    let ui = context.ui;
    let told = |address| {
        let _ = tell(ui, address, settings.tls.is_some(), &engine);
    };
    let ended = countersign_server::run(&settings, app, told)?;
    let finished = engine.close(PATIENCE);
    post.close(LAST_POST);
    if !ui.json {
        let words = match (ended, finished) {
            (Ended::Drained, true) => "stopped; everything that was begun is finished",
            _ => "stopped; what was not finished is taken up at the next start",
        };
        ui.line(paint(DIM, words))?;
    }
    Ok(Exit::Done)
}

/// The engine that advances all runs of the home.
fn engine(host: &Arc<Host>, args: &ServeArgs, post: &Post) -> Result<Engine, Failure> {
    let mut library = runs::library_with(host, &args.workflows)?;
    let observer = Some(Arc::new(post.clone()) as Arc<dyn Observer>);
    let mut settings = EngineSettings { observer, ..EngineSettings::default() };
    if args.conformance {
        for workflow in sample_workflows().map_err(|_| unusable())? {
            library.provide(workflow)?;
        }
        settings.offers = Offers::conformance();
        settings.secrets = sample_secrets(env::var(CANARY).ok().as_deref())?;
    }
    Engine::start(Arc::clone(host), library, settings)
}

fn unusable() -> Failure {
    Failure::state("INTERNAL", "a workflow of the host itself cannot be read")
}

fn post_settings(config: &ServeConfig) -> PostSettings {
    let form = match config.webhook_signature {
        WebhookSignature::Bare => SignatureForm::Bare,
        WebhookSignature::Prefixed => SignatureForm::Prefixed,
    };
    PostSettings { policy: UrlPolicy { allow_private: config.webhook_allow_private }, form }
}

fn app(
    engine: &Engine,
    config: &ServeConfig,
    closing: &Closing,
    post: Post,
) -> Result<App, Failure> {
    let host = engine.host();
    let secret = host.home().derive_key("interrupts");
    let api = Api::new(engine.clone(), &secret, closing.clone(), post);
    let most = config.max_body_kb.saturating_mul(1024);
    let edge = Edge {
        keys: Arc::clone(host) as Arc<dyn countersign_server::Keys>,
        shelf: Arc::new(JournalShelf::new(Arc::clone(host))),
        clock: Arc::new(SystemClock),
        place: Place::new(&config.names, &config.origins, config.tls.is_some()),
        limiter: Limiter::new(rates(config)),
        inflight: Inflight::new(config.max_inflight as usize, 1),
        body: BodyBounds { max_bytes: most as usize, within: Duration::from_secs(30) },
        closing: closing.clone(),
    };
    let offered = Offered::of(engine, most as usize, config.max_inflight);
    Ok(table(&offered, env!("CARGO_PKG_VERSION"))?.app(api, Arc::new(edge)))
}

fn rates(config: &ServeConfig) -> Rates {
    let rate = |per_second: u32| {
        (per_second > 0).then(|| Rate { burst: per_second, per_second: f64::from(per_second) })
    };
    Rates {
        key: rate(config.requests_per_second_of_key),
        tenant: rate(config.requests_per_second_of_tenant),
        address: rate(config.requests_per_second_of_address),
        ..Rates::default()
    }
}

fn settings(args: &ServeArgs, config: &ServeConfig) -> Result<Settings, Failure> {
    let tls = config
        .tls
        .as_ref()
        .map(|tls| TlsFiles { certificates: tls.certificates.clone(), key: tls.key.clone() });
    if tls.is_none() && !args.listen.ip().is_loopback() {
        let message = format!("{} is not of this machine alone, and there is no TLS", args.listen);
        return Err(Failure::validation("TLS_MISSING", message)
            .hint("name certificates under `[serve.tls]`, or listen on 127.0.0.1"));
    }
    Ok(Settings { listen: args.listen, tls, bounds: Bounds::default() })
}

/// The first signal ends the host in order.
fn watch(stop: Arc<AtomicBool>, closing: Closing) {
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        closing.close();
    });
}

fn tell(ui: Ui, address: SocketAddr, tls: bool, engine: &Engine) -> Done {
    let url = format!("{}://{address}", if tls { "https" } else { "http" });
    let workflows = engine.library().all().count();
    if ui.json {
        return ui.json_line(&json!({"url": url, "workflows": workflows}));
    }
    let plural = if workflows == 1 { "" } else { "s" };
    ui.line(format!("serving {} with {workflows} workflow{plural}", paint(BOLD, &url)))?;
    ui.line(paint(DIM, "stop with Ctrl-C; nothing is lost"))
}
