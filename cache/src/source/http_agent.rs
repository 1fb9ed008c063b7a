//! The settings of a remote in, an HTTP client out.
//!
//! Law: it follows no redirect and interprets no status by itself; certificates are always checked (held by
//! `a_private_authority_is_trusted_only_when_configured`).

use std::path::Path;
use std::time::Duration;

use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use zagent_config::settings::RemoteSettings;

use super::AGENT;
use super::error::{SourceErrorKind, SourceFailure};
use zagent_config::mask::bare_url;

/// How long an open connection may stay unused: longer than the poll interval.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Buffer sizes of an open connection, in and out. The response head must fit as a whole.
const BUFFERS: (usize, usize) = (64 << 10, 16 << 10);
/// The longest response head. Smaller than its buffer: a head that fills it would count as a broken connection.
const MAX_HEADER_BYTES: usize = BUFFERS.0 - 1;

/// The client for a remote.
pub(super) fn new_agent(remote: &RemoteSettings) -> Result<ureq::Agent, SourceFailure> {
    let mut tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
    if let Some(path) = &remote.ca {
        tls = tls.root_certs(RootCerts::from(read_certificates(path)?));
    }
    let mut config = ureq::Agent::config_builder()
        .tls_config(tls.build())
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_age(IDLE_TIMEOUT)
        .max_idle_connections(2)
        .max_idle_connections_per_host(1)
        .input_buffer_size(BUFFERS.0)
        .output_buffer_size(BUFFERS.1)
        .max_response_header_size(MAX_HEADER_BYTES)
        .accept_encoding("identity")
        .user_agent(AGENT);
    if let Some(proxy) = &remote.proxy {
        let bad = |_| {
            SourceFailure::new(
                SourceErrorKind::Local,
                format!("`proxy: {}` is not a valid proxy address", bare_url(proxy)),
            )
        };
        config = config.proxy(Some(ureq::Proxy::new(proxy).map_err(bad)?));
    }
    Ok(config.build().new_agent())
}

fn read_certificates(path: &Path) -> Result<Vec<ureq::tls::Certificate<'static>>, SourceFailure> {
    let shown = path.display();
    let pem = std::fs::read(path).map_err(|error| {
        SourceFailure::new(
            SourceErrorKind::Local,
            format!("cannot read the certificates in `{shown}`: {error}"),
        )
    })?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(SourceFailure::new(
            SourceErrorKind::Local,
            format!("`{shown}` contains no PEM certificate"),
        ));
    }
    Ok(certificates)
}
