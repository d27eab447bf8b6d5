//! What a file has besides its text: rights, owner, access control lists and other extended attributes. A file that
//! takes the place of another one gets all of it, and one that is brought back what it had.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Mode, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// They are of what the file holds, and the kernel or who signs makes them.
const OF_CONTENTS: [&str; 2] = ["security.ima", "security.evm"];

/// A new file may have it from its directory.
const ACCESS: &str = "system.posix_acl_access";

/// Of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The lower 12 bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Names, and values as the file system has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended: Vec<(String, Vec<u8>)>,
}

impl Attributes {
    pub(super) fn of(file: &File) -> io::Result<Attributes> {
        let metadata = file.metadata()?;
        let names = names(file)?.into_iter();
        let names = names.filter(|name| !OF_CONTENTS.contains(&name.as_str()));
        let extended = names.map(|name| Ok((name.clone(), value(file, &name)?)));
        Ok(Attributes {
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            extended: extended.collect::<io::Result<_>>()?,
        })
    }

    /// Gives them to a file that was made just now.
    pub(super) fn give_to(&self, file: &File) -> io::Result<()> {
        std::os::unix::fs::fchown(file, Some(self.uid), Some(self.gid))?;
        rustix::fs::fchmod(file, Mode::from_raw_mode(self.mode))?;
        for (name, wanted) in &self.extended {
            // One that was given by the kernel, a label as a rule, may be for nobody else to give.
            if value(file, name).ok().as_ref() != Some(wanted) {
                rustix::fs::fsetxattr(file, name, wanted, XattrFlags::empty())?;
            }
        }
        let has_access = self.extended.iter().any(|(name, _)| name == ACCESS);
        if !has_access && names(file)?.iter().any(|name| name == ACCESS) {
            rustix::fs::fremovexattr(file, ACCESS)?;
        }
        Ok(())
    }
}

/// The names of all extended attributes; none where the file system has none, or one that is no text.
fn names(file: impl AsFd) -> io::Result<Vec<String>> {
    let length = match rustix::fs::flistxattr_query(&file) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        length => length?,
    };
    let mut bytes = vec![0; length];
    let length = rustix::fs::flistxattr(&file, &mut bytes[..])?;
    let names = bytes[..length]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    Ok(names
        .filter_map(|name| String::from_utf8(name.to_vec()).ok())
        .collect())
}

fn value(file: impl AsFd, name: &str) -> io::Result<Vec<u8>> {
    let length = rustix::fs::fgetxattr_query(&file, name)?;
    let mut bytes = vec![0; length];
    let length = rustix::fs::fgetxattr(&file, name, &mut bytes[..])?;
    bytes.truncate(length);
    Ok(bytes)
}
