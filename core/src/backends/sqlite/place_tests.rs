use std::path::Path;

use super::mount_kind;

const MOUNTS: &str = "/dev/vda / ext4 rw 0 0\n\
                      me@host:/srv /mnt/far\\040away fuse.sshfs rw 0 0\n\
                      tmpfs /mnt tmpfs rw 0 0\n";

#[test]
fn the_longest_mount_above_a_path_says_its_kind() {
    let kind = |path: &str| mount_kind(MOUNTS, Path::new(path));
    assert_eq!(kind("/mnt/far away/jobs").as_deref(), Some("fuse.sshfs"));
    assert_eq!(kind("/mnt/near").as_deref(), Some("tmpfs"));
    assert_eq!(kind("/srv").as_deref(), Some("ext4"));
}
