//! The stable names of everything that can be wrong with a patch.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($(#[$why:meta])* $name:ident = $text:literal,)+) => {
        /// What is wrong, as a program reads it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$why])* $name,)+
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name,)+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)+
                }
            }
        }
    };
}

codes! {
    // Reading: the bytes are no diff.
    /// There is nothing in the input that could be applied.
    NoPatch = "NO_PATCH",
    /// A header of a file that cannot be read, or says two things at once.
    HeaderMalformed = "HEADER_MALFORMED",
    /// The headers of one file name different files.
    NamesDiffer = "NAMES_DIFFER",
    /// A name in quotes that does not follow the rules of git, or fewer parts than are stripped.
    NameMalformed = "NAME_MALFORMED",
    /// A mode that no file of a repository has.
    ModeUnsupported = "MODE_UNSUPPORTED",
    HunkHeaderMalformed = "HUNK_HEADER_MALFORMED",
    /// A hunk with fewer lines than its header says.
    HunkTooShort = "HUNK_TOO_SHORT",
    /// A hunk with more lines than its header says.
    HunkTooLong = "HUNK_TOO_LONG",
    HunkWithoutFile = "HUNK_WITHOUT_FILE",
    HunkMissing = "HUNK_MISSING",
    /// A hunk that begins before the one above it ends.
    HunksOutOfOrder = "HUNKS_OUT_OF_ORDER",
    /// "No newline at end of file" where more lines follow.
    MarkerMisplaced = "MARKER_MISPLACED",
    /// A new file with old lines, or a deleted one with new lines.
    OperationContradicted = "OPERATION_CONTRADICTED",
    CombinedDiff = "COMBINED_DIFF",
    BinaryMalformed = "BINARY_MALFORMED",
    BinaryTooLarge = "BINARY_TOO_LARGE",

    // Judging: a diff that must not become a patch.
    NameNotText = "NAME_NOT_TEXT",
    NameUnsafe = "NAME_UNSAFE",
    NameTooLong = "NAME_TOO_LONG",
    ControlFile = "CONTROL_FILE",
    Submodule = "SUBMODULE",
    /// Two parts of the patch do something to one path that does not go together.
    PathTwice = "PATH_TWICE",
    /// One path is a file and a directory at once.
    FileAndDirectory = "FILE_AND_DIRECTORY",

    // Applying: a patch that does not fit the tree.
    FileMissing = "FILE_MISSING",
    FileExists = "FILE_EXISTS",
    NotAFile = "NOT_A_FILE",
    /// A parent of the path is a symbolic link or a file.
    ParentNotDirectory = "PARENT_NOT_DIRECTORY",
    KindMismatch = "KIND_MISMATCH",
    ModeMismatch = "MODE_MISMATCH",
    ContextMismatch = "CONTEXT_MISMATCH",
    /// Too much was compared already to look for the place of one more hunk.
    SearchLimit = "SEARCH_LIMIT",
    /// The file to be deleted holds more than the patch removes.
    ContentLeft = "CONTENT_LEFT",
    BinaryDataMissing = "BINARY_DATA_MISSING",
    /// A binary change without anything to tell whether the old content is the right one.
    BinaryUnverified = "BINARY_UNVERIFIED",
    /// The old content is not the one the patch was made from.
    BinaryMismatch = "BINARY_MISMATCH",
    BinaryCorrupt = "BINARY_CORRUPT",
    NotReversible = "NOT_REVERSIBLE",
    MergeConflict = "MERGE_CONFLICT",
    /// A file too large to be patched line by line.
    FileTooLarge = "FILE_TOO_LARGE",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
