//! One remote: its settings in, conversations with it out.

use std::path::Path;
use std::process::ChildStdin;

use gix_transport::Protocol;
use gix_transport::client::blocking_io::Transport;
use gix_transport::client::blocking_io::http::connect_http;
use gix_transport::client::git::{ConnectMode, blocking_io::Connection};
use zagent_config::settings;

use super::address::{Address, redact};
use super::child::{self, Child, Service};
use super::error::{Failure, Kind};
use super::http::Backend;
use super::push::Offer;
use super::wire::Wire;
use super::{Deadline, MAX_REFS, SourceError};

/// A remote, and the connection to it that is kept between polls.
pub struct Client {
    pub(super) remote: settings::Remote,
    pub(super) shown: String,
    pub(super) address: Address,
    pub(super) wire: Option<Wire>,
    pub(super) max_pack: u64,
    pub(super) max_file: u64,
    pub(super) offer: Option<Offer>,
}

/// One conversation.
pub(super) struct Session {
    pub(super) transport: Box<dyn Transport + Send>,
    child: Option<Child>,
    wire: Option<Wire>,
    shown: String,
}

impl Client {
    /// A client for a remote; nothing is connected yet.
    ///
    /// # Errors
    /// Fails when the address cannot be used, or the certificates or the proxy of the settings cannot.
    pub fn new(remote: &settings::Remote, source: &settings::Source) -> Result<Self, SourceError> {
        let shown = redact(&remote.url);
        let at = |failure: Failure| failure.at(&shown);
        let address = Address::parse(&remote.url).map_err(at)?;
        let wire = match &address {
            Address::Http(http) => Some(Wire::new(remote, http).map_err(at)?),
            _ => None,
        };
        if remote
            .user
            .as_ref()
            .is_some_and(|user| user.starts_with('-') || user.chars().any(char::is_control))
        {
            return Err(at(Failure::new(Kind::Local, format!("the user for {shown} is no name of a user"))));
        }
        let (max_pack, max_file) = (source.max_pack, source.max_file);
        Ok(Self { remote: remote.clone(), shown, address, wire, max_pack, max_file, offer: None })
    }

    /// The address, without a password.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.shown
    }

    /// The branch of the settings.
    #[must_use]
    pub fn branch(&self) -> &str {
        &self.remote.branch
    }

    /// The path of a remote on this host.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.address {
            Address::File(path) => Some(path),
            _ => None,
        }
    }

    pub(super) fn fail(&self, kind: Kind, message: String) -> SourceError {
        Failure::new(kind, message).at(&self.shown)
    }

    /// Begins a conversation.
    pub(super) fn open(&self, deadline: Deadline) -> Result<Session, SourceError> {
        if deadline.remaining().is_none() {
            return Err(self.fail(Kind::Timeout, format!("no time is left to ask {}", self.shown)));
        }
        let path = match &self.address {
            Address::Http(_) => return self.open_http(deadline),
            Address::Ssh(ssh) => ssh.path.clone(),
            Address::File(path) => path.to_string_lossy().into_owned(),
        };
        let (child, input, output) = self.spawn(Service::Upload, deadline)?;
        let host = None::<(String, Option<u16>)>;
        let transport = Connection::new(output, input, Protocol::V2, path, host, ConnectMode::Process, false);
        let (wire, shown) = (None, self.shown.clone());
        Ok(Session { transport: Box::new(transport), child: Some(child), wire, shown })
    }

    /// Starts the program that talks to a repository behind pipes.
    pub(super) fn spawn(
        &self,
        service: Service,
        deadline: Deadline,
    ) -> Result<(Child, ChildStdin, child::Output), SourceError> {
        let command = match &self.address {
            Address::Http(_) => {
                return Err(self.fail(Kind::Local, format!("{} is not behind a program", self.shown)));
            }
            Address::Ssh(ssh) => child::ssh(&self.remote, ssh, service, deadline),
            Address::File(path) if !path.exists() => {
                return Err(self.fail(Kind::NoRepository, format!("there is no `{}`", path.display())));
            }
            Address::File(path) => child::local(path, service),
        };
        Child::spawn(command, MAX_REFS, deadline).map_err(|failure| failure.at(&self.shown))
    }

    fn open_http(&self, deadline: Deadline) -> Result<Session, SourceError> {
        let Some(wire) = &self.wire else {
            return Err(self.fail(Kind::Local, format!("{} has no connection", self.shown)));
        };
        wire.forget();
        let url = gix::url::parse(wire.base())
            .map_err(|_| self.fail(Kind::Local, format!("{} cannot be read as a URL", self.shown)))?;
        let backend = Backend::new(wire.clone(), deadline, self.max_pack);
        let transport = Box::new(connect_http(backend, url, Protocol::V2, false));
        Ok(Session { transport, child: None, wire: Some(wire.clone()), shown: self.shown.clone() })
    }
}

impl Session {
    /// Allows so many bytes from now on, for a pack.
    pub(super) fn allow(&self, bytes: u64) {
        if let Some(child) = &self.child {
            child.allow(bytes);
        }
    }

    /// Ends the conversation with an error: the cause that was seen, or else the one that the Git library names.
    pub(super) fn fail(mut self, error: gix::Error, what: &str) -> SourceError {
        let seen = self.wire.as_ref().and_then(Wire::failure);
        let shown = self.shown.clone();
        let seen = seen.or_else(|| self.child.as_mut().and_then(|child| child.failure(&shown)));
        if let Some(failure) = seen {
            return failure.at(&shown);
        }
        let text = chain(&error);
        if text.contains("too large") || text.contains("llocation") || text.contains("exceeds") {
            return Failure::new(
                Kind::TooLarge,
                format!("{shown} sends an object that is larger than allowed"),
            )
            .at(&shown);
        }
        if text.contains("not our ref") {
            let gone = format!(
                "{shown} has no such commit: it was not pushed, or its history was rewritten meanwhile"
            );
            return Failure::new(Kind::NoBranch, gone).at(&shown);
        }
        let message = format!("{shown} {what}");
        SourceError {
            remote: shown,
            kind: Kind::Protocol,
            retry_after: None,
            message,
            source: Some(Box::new(error)),
        }
    }

    /// Ends the conversation.
    pub(super) fn end(self) {
        drop(self);
    }
}

/// All that an error says.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        text.push_str(": ");
        text.push_str(&error.to_string());
        below = error.source();
    }
    text
}
