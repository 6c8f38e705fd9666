// Holds deploy/kubernetes against the schemas of its kinds.
//
//   node tools/check-kubernetes.mjs --schemas FOLDER --crds FILE...
//
// FOLDER: schemas by kind, group and version, such as a folder `vX.Y.Z-standalone-strict` of yannh/kubernetes-json-schema, which
// allow no field that they do not know. FILE: definitions of custom resources. Neither is part of this repository.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Ajv } from 'ajv';
import { parse, parseAllDocuments } from 'yaml';

const { values } = parseArgs({
  options: { schemas: { type: 'string' }, crds: { type: 'string', multiple: true, default: [] } },
});
if (values.schemas === undefined) throw new Error('name the folder of schemas with --schemas');
const schemas = values.schemas;
const manifests = path.join(fileURLToPath(import.meta.url), '..', '..', 'deploy', 'kubernetes');
const documentsOf = (file) =>
  parseAllDocuments(readFileSync(file, 'utf8'), { merge: true }).map((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    return document.toJS();
  });

/** A schema in which an object has the fields that it names, and no others: what a server would drop is a mistake here. */
function strict(schema) {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== 'object' || schema === null) return schema;
  const own = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, strict(value)]));
  const isClosed = schema.properties !== undefined && schema.additionalProperties === undefined;
  return isClosed && schema['x-kubernetes-preserve-unknown-fields'] !== true
    ? { ...own, additionalProperties: false }
    : own;
}

const custom = new Map();
for (const { spec } of values.crds.flatMap(documentsOf)) {
  for (const { name, schema } of spec.versions) {
    const whole = structuredClone(schema.openAPIV3Schema);
    // Any object's: the server knows it.
    whole.properties.metadata = { type: 'object', additionalProperties: true };
    custom.set(`${spec.group}/${name} ${spec.names.kind}`, strict(whole));
  }
}

/** API version of kustomize, whose file is not an object of a server. */
const KUSTOMIZATION = 'kustomize.config.k8s.io/v1beta1';

function schemaOf({ apiVersion, kind }) {
  const own = custom.get(`${apiVersion} ${kind}`);
  if (own !== undefined) return own;
  const [version, group] = apiVersion.split('/').reverse();
  const name = [kind.toLowerCase(), group?.split('.')[0], version].filter(Boolean).join('-');
  const file = path.join(schemas, `${name}.json`);
  if (!existsSync(file)) throw new Error(`no schema of ${apiVersion} ${kind}: neither ${file} nor a --crds`);
  return JSON.parse(readFileSync(file, 'utf8'));
}

const ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false });
let wrong = 0;
for (const name of readdirSync(manifests).filter((file) => file.endsWith('.yaml'))) {
  for (const document of documentsOf(path.join(manifests, name))) {
    if (document.apiVersion === KUSTOMIZATION) continue;
    const holds = ajv.compile(schemaOf(document));
    const what = `${name}: ${document.kind} ${document.metadata.name}`;
    if (holds(document)) {
      console.log(`${what}: as its schema says`);
      continue;
    }
    wrong += 1;
    for (const { instancePath, message, params } of holds.errors ?? [])
      console.error(`${what}: ${instancePath} ${message} ${JSON.stringify(params)}`);
  }
}
const { resources } = parse(readFileSync(path.join(manifests, 'kustomization.yaml'), 'utf8'));
for (const resource of resources) {
  if (existsSync(path.join(manifests, resource))) continue;
  wrong += 1;
  console.error(`kustomization.yaml: there is no ${resource}`);
}
process.exit(wrong === 0 ? 0 : 1);
