//! `zagent report --html DIR|--serve ADDR`: the fleet in a browser.

mod gather;
mod write;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_config::settings::Settings;
use zagent_daemon::api::site::{ServedFile, SiteFiles, serve_site};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_host::CancelToken;
use zagent_run::SignalWatcher;

use super::rollout::BoardArgs;
use super::warn;
use crate::output::{OutputFormat, Ui};
use crate::pages::FleetSite;

/// How often the board is read for a live site.
const DEFAULT_INTERVAL: u64 = 15;

/// Show the whole fleet in a browser: nodes, rollouts and failures
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("way").required(true))]
pub(super) struct ReportArgs {
    /// Write a static site to this directory
    #[arg(long, value_name = "DIR", group = "way")]
    html: Option<PathBuf>,

    /// Serve the site on this address and keep open pages up to date. There is no login: use a loopback address, or a
    /// proxy with a login before it
    #[arg(long, value_name = "ADDRESS:PORT", group = "way")]
    serve: Option<SocketAddr>,

    /// With `--serve`: host name by which browsers may ask for the site, besides its address and `localhost`
    #[arg(long, value_name = "NAME", requires = "serve")]
    host: Vec<String>,

    /// With `--serve`: seconds between two looks at the board
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_INTERVAL, requires = "serve",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: u64,

    #[command(flatten)]
    place: BoardArgs,
}

impl ReportArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        match (&self.html, self.serve) {
            (Some(dir), _) => {
                let data = gather::read_fleet(&settings, Timestamp::now())?;
                data.unread.iter().for_each(|words| warn(words, ui));
                let nodes = data.nodes.len();
                let files = write::write_site(&FleetSite::new(data, None), dir)?;
                let text = format!("{nodes} nodes in {files} files: {}\n", dir.join("index.html").display());
                self.place.print(&text, &object!({"nodes": nodes, "files": files, "dir": dir}), ui);
                Ok(ExitStatus::Success)
            }
            (None, Some(address)) => self.serve(&settings, address, ui),
            (None, None) => {
                Err(AgentError::usage_hint("nothing to do", "use --html DIR or --serve ADDRESS:PORT"))
            }
        }
    }

    fn serve(
        &self,
        settings: &Settings,
        address: SocketAddr,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        let mut version = 1;
        let data = gather::read_fleet(settings, Timestamp::now())?;
        let mut last = data.clone();
        let site = Arc::new(LiveSite(RwLock::new(FleetSite::new(data, Some(version)))));
        let files = Arc::clone(&site) as Arc<dyn SiteFiles>;
        let server = serve_site(address, &self.host, version, files)
            .map_err(|error| AgentError::failed(zagent_config::error_chain(&error)))?;
        if !address.ip().is_loopback() {
            warn("everyone who reaches this address can read the site: it has no login", ui);
        }
        ui.message(&format!("serving http://{}/", server.address()));
        let cancel = Arc::new(CancelToken::new());
        let _signals = SignalWatcher::watch(&cancel);
        loop {
            cancel.wait(Duration::from_secs(self.every));
            if cancel.is_cancelled() {
                return Ok(ExitStatus::Success);
            }
            match gather::read_fleet(settings, Timestamp::now()) {
                Ok(data) if data.is_same(&last) => {}
                Ok(data) => {
                    version += 1;
                    last = data.clone();
                    site.replace(FleetSite::new(data, Some(version)));
                    server.announce(version);
                }
                Err(error) => warn(&error.summary(), ui),
            }
        }
    }
}

/// The site as it is now.
struct LiveSite(RwLock<FleetSite>);

impl LiveSite {
    fn replace(&self, site: FleetSite) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = site;
    }
}

impl SiteFiles for LiveSite {
    fn file(&self, path: &str) -> Option<ServedFile> {
        let site = self.0.read().unwrap_or_else(PoisonError::into_inner);
        site.file(path).map(|file| (file.kind, file.text))
    }
}
