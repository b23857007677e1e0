//! `file.read`, `file.write`, `file.list`, `file.delete`: files beneath the call's root.

use countersign_model::{Capability, Failure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{PathArguments, arguments};
use crate::path::RelPath;
use crate::tool::{Footprint, NativeTool, Place, ToolContext};

fn path_of(input: &Value) -> Result<RelPath, Failure> {
    let PathArguments { path } = arguments(input)?;
    RelPath::parse(&path)
}

#[derive(Debug)]
pub(super) struct Read;

impl NativeTool for Read {
    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        let resource = place.resource(&path_of(input)?)?;
        Ok(Footprint::needs(Capability::FilesystemRead, resource))
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let path = path_of(input)?;
        let bytes = context.read_file(&path)?;
        let size = bytes.len();
        let content = String::from_utf8(bytes).map_err(|_| {
            Failure::execution("FILE_NOT_TEXT", format!("`{path}` is not UTF-8 text"))
        })?;
        Ok(json!({"content": content, "size": size}))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WriteArguments {
    path: String,
    content: String,
    #[serde(default)]
    if_exists: IfExists,
    #[serde(default)]
    create_directories: bool,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum IfExists {
    #[default]
    Replace,
    Fail,
}

#[derive(Debug)]
pub(super) struct Write;

impl NativeTool for Write {
    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        let asked: WriteArguments = arguments(input)?;
        let path = RelPath::parse(&asked.path)?;
        let directories = if asked.create_directories { path.ancestors() } else { Vec::new() };
        let resource = place.resource(&path)?;
        Ok(Footprint::needs(Capability::FilesystemWrite, resource)
            .may_make_directories(directories)
            .may_change_file(path))
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let asked: WriteArguments = arguments(input)?;
        let path = RelPath::parse(&asked.path)?;
        let created = context.existing(&path).is_none();
        if !created && asked.if_exists == IfExists::Fail {
            return Err(Failure::execution("FILE_EXISTS", format!("`{path}` exists already"))
                .hint("set ifExists to `replace` to overwrite it"));
        }
        let image = context.write_file(&path, asked.content.into_bytes())?;
        Ok(
            json!({"path": path.as_str(), "size": image.size, "sha256": image.digest, "created": created}),
        )
    }
}

#[derive(Debug)]
pub(super) struct List;

impl NativeTool for List {
    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        let resource = place.resource(&path_of(input)?)?;
        Ok(Footprint::needs(Capability::FilesystemRead, resource))
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let listed = context.list_directory(&path_of(input)?)?;
        let entries: Vec<_> = listed
            .iter()
            .map(|entry| json!({"name": entry.name, "type": entry.kind, "size": entry.size}))
            .collect();
        Ok(json!({"entries": entries}))
    }
}

#[derive(Debug)]
pub(super) struct Delete;

impl NativeTool for Delete {
    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure> {
        let path = path_of(input)?;
        let resource = place.resource(&path)?;
        Ok(Footprint::needs(Capability::FilesystemDelete, resource).may_change_file(path))
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let path = path_of(input)?;
        let image = context.delete_file(&path)?;
        Ok(json!({"path": path.as_str(), "size": image.size, "sha256": image.digest}))
    }
}
