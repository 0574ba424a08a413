//! Whether a value is what the description says: as much of JSON Schema as the description uses. A name that the schema does not have is
//! a misfit, too: an answer that grows must be described.

use std::sync::LazyLock;

use serde_json::Value;

static DOCUMENT: LazyLock<Value> = LazyLock::new(turnwise_server::document);

/// What is wrong with the value.
pub(crate) fn misfit(schema: &str, value: &Value) -> Option<String> {
    fits(named(schema), value, schema).err()
}

fn named(name: &str) -> &'static Value {
    let schema = &DOCUMENT["components"]["schemas"][name];
    assert!(schema.is_object(), "there is no schema {name}");
    schema
}

fn fits(schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        fits(named(reference.rsplit('/').next().unwrap()), value, at)?;
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let all: Vec<_> = choices.iter().map(|choice| fits(choice, value, at)).collect();
        if all.iter().all(Result::is_err) {
            return Err(format!("{at}: none of {all:?}"));
        }
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return Err(format!("{at}: {value} is not one of {values:?}"));
    }
    let types: Vec<_> = match &schema["type"] {
        Value::Null => Vec::new(),
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    if !types.is_empty() && !types.iter().any(|kind| is(kind, value)) {
        return Err(format!("{at}: {value} is not of type {types:?}"));
    }
    if let Some(number) = value.as_f64() {
        let beyond = |name: &str| schema[name].as_f64();
        if beyond("minimum").is_some_and(|least| number < least) || beyond("maximum").is_some_and(|most| number > most)
        {
            return Err(format!("{at}: {number} is out of bounds"));
        }
        if number.abs() >= 9_007_199_254_740_992.0 {
            return Err(format!("{at}: {number} is beyond 2^53"));
        }
    }
    if schema["format"] == "date-time" && !value.as_str().is_none_or(|text| text.ends_with('Z')) {
        return Err(format!("{at}: {value} is not in UTC"));
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (place, value) in values.iter().enumerate() {
            fits(items, value, &format!("{at}/{place}"))?;
        }
    }
    if let (Some(known), Some(members)) = (schema["properties"].as_object(), value.as_object()) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                return Err(format!("{at}: {name} is missing"));
            }
        }
        for (name, value) in members {
            let schema = known.get(name).ok_or_else(|| format!("{at}: {name} is not described"))?;
            fits(schema, value, &format!("{at}/{name}"))?;
        }
    }
    Ok(())
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}
