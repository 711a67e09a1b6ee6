// SPDX-License-Identifier: MIT
//! A self-signed certificate for one run. tquic reads certificates from files, so they exist for a moment.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, process};

use tquic::TlsConfig;

use crate::Outcome;

fn load(folder: &Path, application: &[u8]) -> Outcome<TlsConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["ccatune".to_string()])?;
    let (certificate, key) = (folder.join("certificate"), folder.join("key"));
    fs::write(&certificate, made.cert.pem())?;
    fs::write(&key, made.signing_key.serialize_pem())?;
    let names = (certificate.to_str(), key.to_str());
    let (Some(certificate), Some(key)) = names else {
        return Err(format!("expected a temporary folder with a name in UTF-8, got {folder:?}").into());
    };
    Ok(TlsConfig::new_server_config(certificate, key, vec![application.to_vec()], false)?)
}

/// The settings of TLS for a server with a new certificate.
pub fn server(application: &[u8]) -> Outcome<TlsConfig> {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let folder = env::temp_dir().join(format!("ccatune-tquic-{}-{now_ns}", process::id()));
    DirBuilder::new().mode(0o700).create(&folder)?;
    let loaded = load(&folder, application);
    fs::remove_dir_all(&folder)?;
    loaded
}
