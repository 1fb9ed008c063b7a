//! One remote: its settings in, conversations with it out.

use std::path::Path;
use std::process::ChildStdin;

use gix_transport::Protocol;
use gix_transport::client::blocking_io::Transport;
use gix_transport::client::blocking_io::http::connect_http;
use gix_transport::client::git::{ConnectMode, blocking_io::Connection};
use zagent_config::settings;

use super::address::RemoteAddress;
use super::error::{SourceErrorKind, SourceFailure};
use super::git_process::{self, GitProcess, GitService};
use super::http_remote::HttpRemote;
use super::http_transport::HttpTransport;
use super::push::ServerCapabilities;
use super::{Deadline, MAX_REFS, SourceError};
use zagent_config::mask::bare_url;

/// A remote, and the connection to it that stays open between polls.
pub struct RemoteClient {
    pub(super) remote: settings::RemoteSettings,
    pub(super) display_url: String,
    pub(super) address: RemoteAddress,
    pub(super) http: Option<HttpRemote>,
    pub(super) max_pack: u64,
    pub(super) max_file: u64,
    pub(super) max_files: usize,
    pub(super) capabilities: Option<ServerCapabilities>,
}

/// One conversation.
pub(super) struct GitSession {
    pub(super) transport: Box<dyn Transport + Send>,
    child: Option<GitProcess>,
    http: Option<HttpRemote>,
    display_url: String,
}

impl RemoteClient {
    /// A client for a remote; it does not connect yet.
    ///
    /// # Errors
    /// Fails when the address, the certificates or the proxy in the settings cannot be used.
    pub fn new(
        remote: &settings::RemoteSettings,
        source: &settings::SourceSettings,
    ) -> Result<Self, SourceError> {
        let shown = bare_url(&remote.url);
        let at = |failure: SourceFailure| failure.with_remote(&shown);
        let address = RemoteAddress::parse(&remote.url).map_err(at)?;
        let wire = match &address {
            RemoteAddress::Http(http) => Some(HttpRemote::new(remote, http).map_err(at)?),
            _ => None,
        };
        if remote
            .user
            .as_ref()
            .is_some_and(|user| user.starts_with('-') || user.chars().any(char::is_control))
        {
            return Err(at(SourceFailure::new(
                SourceErrorKind::Local,
                format!("the user for {shown} is not a valid user name"),
            )));
        }
        let (max_pack, max_file) = (source.max_pack, source.max_file);
        Ok(Self {
            remote: remote.clone(),
            display_url: shown,
            address,
            http: wire,
            max_pack,
            max_file,
            max_files: source.max_files,
            capabilities: None,
        })
    }

    /// The address, without a password.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.display_url
    }

    /// The branch of the settings.
    #[must_use]
    pub fn branch(&self) -> &str {
        &self.remote.branch
    }

    /// The path of a remote on this host.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.address {
            RemoteAddress::File(path) => Some(path),
            _ => None,
        }
    }

    pub(super) fn new_error(&self, kind: SourceErrorKind, message: String) -> SourceError {
        SourceFailure::new(kind, message).with_remote(&self.display_url)
    }

    /// Starts a conversation.
    pub(super) fn open_session(&self, deadline: Deadline) -> Result<GitSession, SourceError> {
        if deadline.remaining().is_none() {
            return Err(self.new_error(
                SourceErrorKind::Timeout,
                format!("the time limit ended before {} was contacted", self.display_url),
            ));
        }
        let path = match &self.address {
            RemoteAddress::Http(_) => return self.open_http(deadline),
            RemoteAddress::Ssh(ssh) => ssh.path.clone(),
            RemoteAddress::File(path) => path.to_string_lossy().into_owned(),
        };
        let (child, input, output) = self.spawn_process(GitService::Upload, deadline)?;
        let host = None::<(String, Option<u16>)>;
        let transport = Connection::new(output, input, Protocol::V2, path, host, ConnectMode::Process, false);
        let (wire, shown) = (None, self.display_url.clone());
        Ok(GitSession { transport: Box::new(transport), child: Some(child), http: wire, display_url: shown })
    }

    /// Starts the program that connects to a repository over pipes.
    pub(super) fn spawn_process(
        &self,
        service: GitService,
        deadline: Deadline,
    ) -> Result<(GitProcess, ChildStdin, git_process::BoundedStdout), SourceError> {
        let command = match &self.address {
            RemoteAddress::Http(_) => {
                return Err(self.new_error(
                    SourceErrorKind::Local,
                    format!("{} is not reached through a program", self.display_url),
                ));
            }
            RemoteAddress::Ssh(ssh) => git_process::ssh_command(&self.remote, ssh, service, deadline),
            RemoteAddress::File(path) if !path.exists() => {
                return Err(self.new_error(
                    SourceErrorKind::NoRepository,
                    format!("`{}` does not exist", path.display()),
                ));
            }
            RemoteAddress::File(path) => git_process::local_command(path, service),
        };
        GitProcess::spawn(command, MAX_REFS, deadline)
            .map_err(|failure| failure.with_remote(&self.display_url))
    }

    fn open_http(&self, deadline: Deadline) -> Result<GitSession, SourceError> {
        let Some(wire) = &self.http else {
            return Err(
                self.new_error(SourceErrorKind::Local, format!("{} has no connection", self.display_url))
            );
        };
        wire.reset();
        let url = gix::url::parse(wire.base()).map_err(|_| {
            self.new_error(SourceErrorKind::Local, format!("{} cannot be read as a URL", self.display_url))
        })?;
        let backend = HttpTransport::new(wire.clone(), deadline, self.max_pack);
        let transport = Box::new(connect_http(backend, url, Protocol::V2, false));
        Ok(GitSession {
            transport,
            child: None,
            http: Some(wire.clone()),
            display_url: self.display_url.clone(),
        })
    }
}

impl GitSession {
    /// Sets the byte limit from now on, for a pack.
    pub(super) fn set_byte_limit(&self, bytes: u64) {
        if let Some(child) = &self.child {
            child.set_byte_limit(bytes);
        }
    }

    /// Ends the conversation with an error: the recorded cause, or else the one from the Git library.
    pub(super) fn into_error(mut self, error: gix::Error, what: &str) -> SourceError {
        let seen = self.http.as_ref().and_then(HttpRemote::take_failure);
        let shown = self.display_url.clone();
        let seen = seen.or_else(|| self.child.as_mut().and_then(|child| child.take_failure(&shown)));
        if let Some(failure) = seen {
            return failure.with_remote(&shown);
        }
        let text = error_chain(&error);
        if text.contains("too large") || text.contains("llocation") || text.contains("exceeds") {
            return SourceFailure::new(
                SourceErrorKind::TooLarge,
                format!("{shown} sends an object that exceeds the size limit"),
            )
            .with_remote(&shown);
        }
        if text.contains("not our ref") {
            let gone = format!(
                "{shown} has no such commit: it was not pushed, or the history was rewritten in the meantime"
            );
            return SourceFailure::new(SourceErrorKind::NoBranch, gone).with_remote(&shown);
        }
        let message = format!("{shown} {what}");
        SourceError {
            remote: shown,
            kind: SourceErrorKind::Protocol,
            retry_after: None,
            message,
            source: Some(Box::new(error)),
        }
    }

    /// Ends the conversation.
    pub(super) fn close(self) {
        drop(self);
    }
}

/// The whole error chain as text.
fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        text.push_str(": ");
        text.push_str(&error.to_string());
        below = error.source();
    }
    text
}
