//! Settings that are one of a few words.

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident $text:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// The word for it in a configuration file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The choice of a word.
            #[must_use]
            pub fn find(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    )*};
}

choices! {
    /// Which signatures a revision needs.
    RequiredSignatures {
        /// None.
        None "none",
        /// The commit's.
        Commit "commit",
        /// The manifest's.
        Manifest "manifest",
        /// Both.
        Both "both",
    }
    /// Whether a repository needs a manifest.
    ManifestRule {
        /// One is checked when it is there.
        Optional "optional",
        /// Without one a revision is refused.
        Required "required",
    }
    /// In which order states run.
    RunSchedule {
        /// Level by level, with a sync point between levels.
        Levels "levels",
        /// As soon as what a state needs is done.
        Eager "eager",
        /// One by one, in Salt's order.
        Ordered "ordered",
    }
    /// Whose verdicts count where Salt and zagent differ.
    CompatMode {
        /// Our own, which are stricter.
        None "none",
        /// Salt's.
        Salt "salt",
    }
    /// Whether templates may do a thing.
    TemplatePermission {
        /// They may.
        Allow "allow",
        /// They may not.
        Forbid "forbid",
    }
    /// Where nodes report.
    BoardKind {
        /// Nowhere.
        None "none",
        /// A store on this machine.
        Sled "sled",
        /// Refs of a Git repository.
        Git "git",
        /// A NATS key-value bucket.
        Nats "nats",
    }
    /// What moves a node to other states.
    FollowMode {
        /// The head of the followed branch, unless a rollout of states says otherwise.
        Head "head",
        /// Rollouts alone; a node without any states takes the head.
        Rollouts "rollouts",
    }
    /// When the agent may reboot the host.
    RebootPolicy {
        /// Never; that a reboot is needed is only told.
        Never "never",
        /// When one is needed, inside a maintenance window.
        Window "window",
        /// When a state asks for one, inside a maintenance window if there are any.
        OnRequest "asked",
    }
    /// When a webhook is called.
    WebhookOccasion {
        /// A run failed.
        Failure "failure",
        /// A run changed something.
        Change "change",
        /// A run succeeded after one that failed.
        Recovery "recovery",
        /// A revision was rolled back.
        Rollback "rollback",
        /// Every run.
        Always "always",
    }
    /// A day of the week.
    Day {
        /// Monday.
        Monday "mon",
        /// Tuesday.
        Tuesday "tue",
        /// Wednesday.
        Wednesday "wed",
        /// Thursday.
        Thursday "thu",
        /// Friday.
        Friday "fri",
        /// Saturday.
        Saturday "sat",
        /// Sunday.
        Sunday "sun",
    }
}
