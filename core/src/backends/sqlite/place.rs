//! Where the file is: what can be said before it is opened.

use std::path::{Path, PathBuf};

use super::options::SqliteOptions;
use crate::backends::sql::Access;
use crate::error::{Code, Error, Result};

/// The absolute path of the file, after checking that it can be opened for `access`.
pub(super) fn check(options: &SqliteOptions, access: Access) -> Result<PathBuf> {
    let path = std::path::absolute(&options.path).map_err(|error| {
        refused(format!("the path {} cannot be made absolute: {error}", options.path.display()))
    })?;
    let shown = path.display();
    if path.is_dir() {
        return Err(refused(format!(
            "{shown} is a directory; name a file in it, for example {}",
            path.join("anarchon.db").display()
        )));
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    if !directory.is_dir() {
        return Err(refused(format!(
            "the directory {} does not exist, so the database {shown} cannot be created; create \
             the directory, or name another path",
            directory.display()
        )));
    }
    if access == Access::Reader && !path.exists() {
        return Err(refused(format!(
            "there is no database {shown}: nothing has been recorded there. Readers create none; \
             start a scheduler on it first, or name the path that it uses"
        )));
    }
    if !options.allow_network
        && let Some(kind) = network_file_system(directory)
    {
        return Err(refused(format!(
            "{shown} is on a network file system ({kind}), whose locks cannot be relied on: two \
             machines could both win a slot. Put the file on a local disk, use a database server \
             (postgres:, mysql:), or say allowNetwork=true if only one machine uses it"
        )));
    }
    Ok(path)
}

fn refused(message: String) -> Error {
    Error::new(Code::BackendRefused, message)
}

/// The kind of network file system that a directory is on, if it is on one.
#[cfg(target_os = "linux")]
fn network_file_system(directory: &Path) -> Option<String> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    /// The numbers that `statfs(2)` gives file systems.
    const NETWORKS: [(i64, &str); 7] = [
        (0x6969, "nfs"),
        (0xff53_4d42, "cifs"),
        (0xfe53_4d42, "smb2"),
        (0x517b, "smb"),
        (0x0102_1997, "9p"),
        (0x5346_414f, "afs"),
        (0x00c3_6400, "ceph"),
    ];
    const FUSE: i64 = 0x6573_5546;

    let name = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: all-zero bytes are a valid `statfs`, and `name` ends with a zero byte.
    let kind = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        (libc::statfs(name.as_ptr(), &raw mut found) == 0).then_some(found.f_type)
    }?;
    let known = NETWORKS.iter().find(|(number, _)| *number == kind);
    match known {
        Some((_, word)) => Some((*word).to_owned()),
        // Many local things are FUSE too: the table of mounts says which it is.
        None if kind == FUSE => fuse_network(directory),
        None => None,
    }
}

#[cfg(target_os = "linux")]
fn fuse_network(directory: &Path) -> Option<String> {
    let real = directory.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let kind = mount_kind(&mounts, &real)?;
    const NETWORKS: [&str; 5] =
        ["fuse.sshfs", "fuse.s3fs", "fuse.glusterfs", "fuse.rclone", "fuse.gcsfuse"];
    NETWORKS.contains(&kind.as_str()).then_some(kind)
}

/// The kind of the mount that a path is under, by the text of `/proc/self/mounts`.
#[cfg(target_os = "linux")]
fn mount_kind(mounts: &str, path: &Path) -> Option<String> {
    let entries = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?.replace("\\040", " ");
        Some((place, words.next()?))
    });
    let above = entries.filter(|(place, _)| path.starts_with(place));
    above.max_by_key(|(place, _)| place.len()).map(|(_, kind)| kind.to_owned())
}

#[cfg(not(target_os = "linux"))]
fn network_file_system(_directory: &Path) -> Option<String> {
    None
}

#[cfg(all(test, target_os = "linux"))]
#[path = "place_tests.rs"]
mod tests;
