//! How a managed file stands, in the words and changes of a dry run.

use zagent_config::Map;

use super::Managed;
use crate::fs::{Kind, Stat};
use crate::states::file::content::{Difference, difference, new_content};
use crate::states::file::desired::Made;
use crate::states::file::perms::octal;
use crate::states::{Failure, Look, Scene};

impl Managed {
    pub(super) fn look_at_kept(&self, scene: &Scene<'_>, found: &Stat) -> Result<Look, Failure> {
        let path = self.path.display();
        let letters = self.perms.attrs_differ(scene, &self.path)?;
        if letters.is_none() && self.perms.is_right(found) {
            return Ok(Look::right(format!("File {path} exists with proper permissions. No changes made.")));
        }
        let mut changes = self.perms.changes(found);
        self.add_attrs(&mut changes, letters.is_some());
        let comment = match self.perms.mode {
            Some(mode) if mode != found.mode => format!(
                "File {path} will be updated with permissions {} from its current state of {}",
                octal(mode),
                octal(found.mode)
            ),
            _ => format!("File {path} not updated"),
        };
        Ok(Look::drift(comment, changes))
    }

    fn add_attrs(&self, changes: &mut Map, differ: bool) {
        if let Some(attrs) = self.perms.attrs.as_deref().filter(|_| differ) {
            changes.insert("attrs", attrs);
        }
    }

    pub(super) fn look_at_content(
        &self,
        scene: &Scene<'_>,
        found: &Stat,
        made: &Made,
        is_same: bool,
    ) -> Result<Look, Failure> {
        let letters = self.perms.attrs_differ(scene, &self.path)?;
        if is_same && letters.is_none() && self.perms.is_right(found) {
            return Ok(Look::right(format!("File {} is in the correct state", self.path.display())));
        }
        let old = if is_same { Vec::new() } else { scene.fs.read(&self.path)? };
        let (mut changes, shown) = if is_same { Default::default() } else { self.told(&old, &made.bytes) };
        for (key, value) in self.perms.changes(found).iter() {
            changes.insert(key.clone(), value.clone());
        }
        self.add_attrs(&mut changes, letters.is_some());
        Ok(Look::drift(self.announced(), changes).with_diff(shown))
    }

    /// The difference of two contents, for `changes` and for people.
    pub(super) fn told(&self, old: &[u8], new: &[u8]) -> (Map, String) {
        let mut changes = Map::new();
        if !self.show_changes {
            changes.insert("diff", "<show_changes=False>");
            return (changes, String::new());
        }
        let Difference { salt, shown } = difference(old, new);
        changes.insert("diff", salt);
        (changes, shown)
    }

    pub(super) fn announced(&self) -> String {
        format!(
            "The file {} is set to be changed\nNote: No changes made, actual changes may\nbe different due to other \
             states.",
            self.path.display()
        )
    }

    pub(super) fn look_at_missing(&self, made: Option<&Made>) -> Look {
        let mut changes = Map::new();
        let bytes = made.map_or(&[][..], |made| &made.bytes);
        if self.new_file_diff && made.is_some() {
            changes = self.told(b"", bytes).0;
        }
        if changes.is_empty() {
            changes.insert("newfile", self.path.to_string_lossy().into_owned());
        }
        let shown = if self.show_changes { new_content(bytes) } else { String::new() };
        Look::drift(self.announced(), changes).with_diff(shown)
    }

    /// The difference to what a link leads to.
    pub(super) fn told_link(&self, scene: &Scene<'_>, new: &[u8]) -> Result<(Map, String), Failure> {
        let led = scene.fs.stat(&self.path)?.filter(|led| led.kind == Kind::File);
        let (mut changes, shown) = match led {
            Some(_) => self.told(&scene.fs.read(&self.path)?, new),
            None => (Map::new(), String::new()),
        };
        // A link to the very same content, or to nothing, has no lines to show.
        if led.is_none() || shown.is_empty() && self.show_changes {
            changes.insert("diff", "Replace symbolic link with regular file");
        }
        Ok((changes, shown))
    }
}
