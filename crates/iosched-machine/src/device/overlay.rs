//! Files of an overlay (overlayfs): what is read and written is a file of one of its layers, which has a path and a number
//! of its own. A write through either is seen through both.
//!
//! Known by its path: the file of the same path in a layer. Not seen are layers whose paths were given relative to a
//! directory, and files that were renamed in an overlay that keeps only that they were (`redirect_dir`, `metacopy`).

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::FileNumber;
use super::mounts::{Mount, MountTable, unescape};

/// The type of the file system.
const OVERLAY: &str = "overlay";

/// A layer may lie on an overlay itself, and the kernel stacks no more than two (`FILESYSTEM_MAX_STACK_DEPTH`).
const DEEPEST: usize = 2;

/// The file and, where it is one of an overlay, those of the layers whose blocks it may have. `path` has no links.
pub(super) fn numbers_of(mounts: &MountTable, path: &Path, file: &Metadata) -> Vec<FileNumber> {
    let mut numbers = vec![FileNumber::of(file)];
    if let Some(mount) = mounts.containing(path) {
        numbers.extend(below(mounts, mount, path));
    }
    numbers
}

/// The files of the layers that have the path of a file of this mount: any of them may be the one that it shows.
/// `mounts` are ours, by which the layers are found.
pub(super) fn below(mounts: &MountTable, mount: &Mount, path: &Path) -> Vec<FileNumber> {
    let mut found = Vec::new();
    let mut paths = in_layers(mount, path);
    for _ in 0..DEEPEST {
        let files = paths.iter().filter_map(|path| path.symlink_metadata().ok());
        found.extend(
            files
                .filter(Metadata::is_file)
                .map(|file| FileNumber::of(&file)),
        );
        let deeper = paths
            .iter()
            .filter_map(|path| Some(in_layers(mounts.containing(path)?, path)));
        paths = deeper.flatten().collect();
    }
    found
}

/// The paths that a file of this mount has in the layers; none if it is no overlay.
fn in_layers(mount: &Mount, path: &Path) -> Vec<PathBuf> {
    if mount.fs_type != OVERLAY {
        return Vec::new();
    }
    let Ok(below) = path.strip_prefix(&mount.mount_point) else {
        return Vec::new();
    };
    let root = mount.root.strip_prefix("/").unwrap_or(&mount.root);
    let layers = layers(&mount.options).into_iter();
    layers
        .map(|layer| layer.iter().chain(root).chain(below).collect())
        .collect()
}

/// The directories of the layers, of the options that the kernel shows of an overlay.
fn layers(options: &[u8]) -> Vec<PathBuf> {
    let mut layers = Vec::new();
    for option in options.split(|&byte| byte == b',') {
        let Some(at) = option.iter().position(|&byte| byte == b'=') else {
            continue;
        };
        let value = unescape(&option[at + 1..]);
        match &option[..at] {
            b"lowerdir" => layers.extend(listed(value.as_os_str().as_bytes())),
            b"upperdir" | b"lowerdir+" | b"datadir+" => layers.push(value),
            _ => {}
        }
    }
    layers.retain(|layer| layer.is_absolute());
    layers
}

/// Paths with colons between them; a backslash takes away what the next character means.
fn listed(value: &[u8]) -> Vec<PathBuf> {
    let mut paths = vec![Vec::new()];
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b':' => paths.push(Vec::new()),
            b'\\' => paths.last_mut().expect("one at least").extend(bytes.next()),
            _ => paths.last_mut().expect("one at least").push(byte),
        }
    }
    let paths = paths.iter().map(|path| OsStr::from_bytes(path).into());
    paths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_read_as_the_kernel_writes_them() {
        let layers = |options: &str| {
            let layers = layers(options.as_bytes()).into_iter();
            let layers = layers.map(|path| path.display().to_string());
            layers.collect::<Vec<_>>()
        };
        assert_eq!(
            layers("rw,lowerdir=/a:/b,upperdir=/u,workdir=/w,uuid=on"),
            ["/a", "/b", "/u"]
        );
        assert_eq!(
            layers(r"rw,lowerdir=/a\134:b:/c\054d::/data,upperdir=/u:\134x"),
            ["/a:b", "/c,d", "/data", r"/u:\x"]
        );
        assert_eq!(layers("ro,lowerdir+=/a:b,datadir+=/c"), ["/a:b", "/c"]);
        assert_eq!(layers("ro,lowerdir=l/A:l/B,upperdir"), [""; 0]);
    }

    #[test]
    fn a_file_is_that_of_its_path_in_any_layer_also_where_a_part_is_mounted() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["up/sub", "low/sub", "base/low/sub", "m"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        for path in ["up/sub/f", "low/sub/f", "base/low/sub/f", "other"] {
            std::fs::write(at(path), "").unwrap();
        }
        let dir = dir.path().display();
        let table = format!(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
             2 1 0:40 /sub {dir}/m rw - overlay overlay rw,lowerdir={dir}/low,upperdir={dir}/up\n\
             3 1 0:41 /sub/f {dir}/other rw - overlay overlay rw,lowerdir={dir}/low\n\
             4 1 0:42 / {dir}/low rw - overlay overlay ro,lowerdir={dir}/base/low\n"
        );
        let table = MountTable::of(table.as_bytes());
        let number = |path: &str| FileNumber::of(&std::fs::metadata(at(path)).unwrap());
        let other = std::fs::metadata(at("other")).unwrap();
        let layers = ["low/sub/f", "up/sub/f", "base/low/sub/f"].map(number);
        let of = |path: &str| numbers_of(&table, &at(path), &other);
        assert_eq!(of("m/f")[1..], layers);
        assert_eq!(of("other")[1..], [layers[0], layers[2]]);
        assert_eq!(of("up/sub/f"), [number("other")], "it is on no overlay");
        assert_eq!(of("m/none"), [number("other")]);
    }
}
