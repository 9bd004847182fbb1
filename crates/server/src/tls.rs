//! TLS: the server's certificate and key, from files or self-signed.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The paths of the server's certificate and key.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate and its chain, in PEM.
    pub cert: PathBuf,
    /// The certificate's private key, in PEM.
    pub key: PathBuf,
}

fn named<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> io::Error {
    let path = path.display().to_string();
    move |error| io::Error::new(io::ErrorKind::InvalidData, format!("{path}: {error}"))
}

impl TlsFiles {
    /// A self-signed certificate in `folder`, which is created if it does not exist. It enables
    /// encryption, but proves nothing to a client without a copy of it.
    ///
    /// # Errors
    /// If the files cannot be written, or there is a certificate without its key.
    pub fn self_signed(folder: &Path) -> io::Result<TlsFiles> {
        let files =
            TlsFiles { cert: folder.join("server-cert.pem"), key: folder.join("server-key.pem") };
        let key = match (files.cert.exists(), files.key.exists()) {
            (true, true) => return Ok(files),
            (true, false) => {
                let text = format!(
                    "{} has server-cert.pem without server-key.pem; restore the key, or remove \
                     the certificate, and the next start makes a new pair",
                    folder.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            // A crash came between the two writes: the key was written, the certificate was not.
            (false, true) => {
                let pem = fs::read_to_string(&files.key)?;
                rcgen::KeyPair::from_pem(&pem).map_err(named(&files.key))?
            }
            (false, false) => {
                let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
                fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                write_new(&files.key, key.serialize_pem().as_bytes(), 0o600)?;
                key
            }
        };
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut params = rcgen::CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name.push(rcgen::DnType::CommonName, "Spillway, by itself");
        let cert = params.self_signed(&key).map_err(io::Error::other)?;
        write_new(&files.cert, cert.pem().as_bytes(), 0o644)?;
        Ok(files)
    }

    /// Reads the certificate and the key.
    pub(crate) fn config(&self) -> io::Result<Arc<ServerConfig>> {
        let certs = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(named(&self.cert))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(named(&self.key))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(certs, key)
            .map_err(named(&self.cert))?;
        Ok(Arc::new(config))
    }
}

/// Writes a file durably, completely or not at all. So after a crash the second of two files does
/// not exist without the first.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_once_and_kept() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles::self_signed(folder.path()).unwrap();
        let first = fs::read(&files.cert).unwrap();
        files.config().unwrap();
        assert_eq!(fs::metadata(&files.key).unwrap().permissions().mode() & 0o777, 0o600);
        let again = TlsFiles::self_signed(folder.path()).unwrap();
        assert_eq!(fs::read(&again.cert).unwrap(), first);
        // As after a crash between the two writes.
        let key = fs::read(&files.key).unwrap();
        fs::remove_file(&files.cert).unwrap();
        TlsFiles::self_signed(folder.path()).unwrap().config().unwrap();
        assert_eq!(fs::read(&files.key).unwrap(), key);
        fs::remove_file(&files.key).unwrap();
        let half = TlsFiles::self_signed(folder.path()).unwrap_err().to_string();
        assert!(half.contains("without server-key.pem"), "{half}");
        let missing = files.config().unwrap_err().to_string();
        assert!(missing.contains("server-key.pem"), "{missing}");
    }
}
