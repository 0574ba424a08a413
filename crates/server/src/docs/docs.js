"use strict";
// Shows openapi.json: every route with its parameters, what comes in and what goes out.

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function schemaName(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(schemaName).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.type === "array") return "array of " + schemaName(schema.items);
  return [].concat(schema.type || "any").join(" or ");
}

function link(schema) {
  const cell = make("td");
  const name = schemaName(schema);
  if (schema && schema.$ref) {
    const anchor = make("a", name);
    anchor.href = "#" + name;
    cell.append(anchor);
  } else cell.textContent = name;
  return cell;
}

function table(rows) {
  const body = make("table");
  for (const [name, schema, text] of rows) {
    const row = make("tr");
    const first = make("td");
    first.append(make("code", name));
    row.append(first, link(schema), make("td", text || "", "text"));
    body.append(row);
  }
  return body;
}

function contentOf(part) {
  const content = part && part.content && Object.values(part.content)[0];
  return content && content.schema;
}

function route(path, verb, operation) {
  const all = make("details");
  const head = make("summary");
  head.append(make("span", verb.toUpperCase(), "verb"), make("code", path), make("span", " " + operation.summary, "text"));
  all.append(head);
  if (operation["x-scope"]) all.append(make("p", "Scope of the token, once there is one: " + operation["x-scope"]));
  const rows = operation.parameters.map((one) => [one.name, one.schema, one.description || "in the path"]);
  if (operation.requestBody) rows.push(["body", contentOf(operation.requestBody), ""]);
  for (const [status, answer] of Object.entries(operation.responses)) rows.push([status, contentOf(answer), answer.description]);
  all.append(table(rows));
  return all;
}

fetch("api/v1/openapi.json").then((answer) => answer.json()).then((api) => {
  document.getElementById("about").textContent = api.info.description;
  const tags = new Map();
  for (const [path, verbs] of Object.entries(api.paths)) {
    for (const [verb, operation] of Object.entries(verbs)) {
      const tag = operation.tags[0];
      if (!tags.has(tag)) tags.set(tag, []);
      tags.get(tag).push(route(path, verb, operation));
    }
  }
  const routes = document.getElementById("routes");
  routes.replaceChildren();
  for (const [tag, all] of tags) routes.append(make("h2", tag), ...all);
  const schemas = document.getElementById("schemas");
  schemas.append(make("h2", "What comes in and goes out"));
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    const part = make("details");
    part.id = name;
    part.append(make("summary", name));
    if (schema.description) part.append(make("p", schema.description, "text"));
    const rows = Object.entries(schema.properties || {}).map(([key, value]) => [key, value, value.description]);
    part.append(rows.length ? table(rows) : make("p", schemaName(schema)));
    schemas.append(part);
  }
  const open = () => {
    const part = document.getElementById(location.hash.slice(1));
    if (part) { part.open = true; part.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  open();
});
