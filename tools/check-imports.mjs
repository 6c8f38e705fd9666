// Which folder may import which. Imports of types count: what a file knows of is what it depends on.
import path from 'node:path';
import ts from '@typescript/typescript6';

/** Folders of `src/gateway/`, and `router.ts`, each of which may import those before it. Files beside them may import all. */
const GATEWAY_ORDER = ['threads', 'chat', 'constraints', 'matching', 'trust', 'request', 'replica', 'router', 'api'];

/** Folders of `src/` beside itself that each may import. */
const MAY_IMPORT = {
  lib: [],
  shared: ['lib'],
  executor: ['lib', 'shared'],
  gateway: ['lib', 'shared'],
  client: ['shared'],
  // It runs in browsers.
  page: [],
  cli: ['lib', 'shared', 'executor', 'gateway', 'client'],
};

/** Libraries of `src/lib/`, each of which may import those before it. */
const LIBRARIES = ['support', 'json', 'unicode', 'jinja', 'grammar', 'gguf', 'tokenizer'];

/**
 * Complaints about the imports of a source tree, a sentence each.
 *
 * @param {ReadonlyMap<string, string>} sources TypeScript by its path from the repository's root
 * @returns {string[]}
 */
export function importComplaints(sources) {
  const imports = [...sources].flatMap(([file, source]) => importsOf(file, source));
  return [...imports.flatMap(complaintsOf), ...cycleComplaints(imports)];
}

/**
 * An import statement, an `import()` or a type's import. `target`: a path from the root, or a package's name. `names`: what is
 * imported; undefined for all of it.
 *
 * @typedef {{ file: string, target: string, isPackage: boolean, names: string[] | undefined }} Import
 */

/**
 * All that a file imports.
 *
 * @param {string} file
 * @param {string} source
 * @returns {Import[]}
 */
function importsOf(file, source) {
  /** @type {Import[]} */
  const found = [];
  const add = (/** @type {string} */ specifier, /** @type {string[] | undefined} */ names) => {
    const isRelative = specifier.startsWith('.');
    const target = isRelative ? path.posix.join(path.posix.dirname(file), specifier) : specifier;
    found.push({ file, target, isPackage: !isRelative, names });
  };
  const visit = (/** @type {ts.Node} */ node) => {
    const isStatement = ts.isImportDeclaration(node) || ts.isExportDeclaration(node);
    if (isStatement && node.moduleSpecifier !== undefined && ts.isStringLiteral(node.moduleSpecifier)) {
      const bindings = ts.isImportDeclaration(node) ? node.importClause?.namedBindings : node.exportClause;
      const elements = bindings !== undefined && 'elements' in bindings ? bindings.elements : undefined;
      const names = elements?.map((element) => (element.propertyName ?? element.name).text);
      add(node.moduleSpecifier.text, names);
    }
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [specifier] = node.arguments;
      if (specifier !== undefined && ts.isStringLiteralLike(specifier)) add(specifier.text, undefined);
    }
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument) && ts.isStringLiteral(node.argument.literal)) {
      add(node.argument.literal.text, undefined);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, source, ts.ScriptTarget.ES2022));
  return found;
}

/** `src/gateway/request/limits.ts` is of the gateway, in `request`; files beside the folders are in none. */
function placeOf(file) {
  const [, area, ...rest] = file.split('/');
  const [first] = rest;
  const isFolder = rest.length > 1 || first === 'router.js' || first === 'router.ts';
  return { area, folder: isFolder ? first.replace(/\.[jt]s$/, '') : undefined };
}

/** @param {Import} of @returns {string[]} */
function complaintsOf({ file, target, isPackage, names }) {
  const from = placeOf(file);
  const complaint = (why) => [`${file} imports ${target}: ${why}`];
  if (!(from.area in MAY_IMPORT)) return complaint(`no rule says what src/${from.area} may import`);
  const isServer = target === 'src/shared/grpc/server.js' || (target === '@grpc/grpc-js' && mayBeServer(names));
  if (from.area === 'gateway' && from.folder !== undefined && from.folder !== 'api') {
    if (isServer) return complaint('only src/gateway/api may import gRPC’s server');
    const isGrpc = target.startsWith('@grpc/') || target.startsWith('src/shared/grpc/');
    if (isGrpc && from.folder !== 'replica')
      return complaint('only src/gateway/api, and replicas as clients, may import gRPC');
  }
  if (isPackage) return [];
  if (!target.startsWith('src/')) return complaint('it is no source');
  const to = placeOf(target);
  if (to.area !== from.area) {
    return MAY_IMPORT[from.area].includes(to.area) ? [] : complaint(`src/${from.area} may not import src/${to.area}`);
  }
  const order = { gateway: GATEWAY_ORDER, lib: LIBRARIES }[from.area];
  if (order === undefined || from.folder === undefined) return [];
  const own = order.indexOf(from.folder);
  if (own < 0) return complaint(`no rule says what src/${from.area}/${from.folder} may import`);
  const other = to.folder === undefined ? order.length : order.indexOf(to.folder);
  if (other <= own) return [];
  return complaint(`imports point to an earlier one of ${order.join(', ')}`);
}

/**
 * True if what is imported from gRPC may be its server: all of it, or a name of the server's side.
 *
 * @param {string[] | undefined} names
 */
function mayBeServer(names) {
  return names === undefined || names.some((name) => /^Server(?!Error)|^sendUnaryData$|^handle/.test(name));
}

/**
 * Folders that import one another, by way of others too. Within one folder files may.
 *
 * @param {Import[]} imports
 */
function cycleComplaints(imports) {
  const name = ({ area, folder }) => (folder === undefined ? area : `${area}/${folder}`);
  const graph = new Map();
  for (const { file, target, isPackage } of imports) {
    const [from, to] = [placeOf(file), placeOf(target)];
    // The command, the client and what both processes share are a folder each, whatever lies in them.
    const isInside = from.area === to.area && ['shared', 'cli', 'client', 'page'].includes(from.area);
    if (isPackage || isInside || name(from) === name(to)) continue;
    if (!graph.has(name(from))) graph.set(name(from), new Map());
    const targets = graph.get(name(from));
    if (!targets.has(name(to))) targets.set(name(to), `${file} imports ${target}`);
  }
  const reached = new Map([...graph.keys()].map((folder) => [folder, reachableFrom(folder, graph)]));
  const cycles = new Map();
  for (const [folder, reachable] of reached) {
    if (!reachable.has(folder)) continue;
    const cycle = [...reachable].filter((other) => reached.get(other)?.has(folder)).sort();
    cycles.set(cycle.join(', '), cycle);
  }
  return [...cycles].map(([joined, cycle]) => {
    const edges = cycle.flatMap((from) => cycle.map((to) => graph.get(from)?.get(to)));
    return `${joined} import one another: ${edges.filter((edge) => edge !== undefined).join('; ')}`;
  });
}

function reachableFrom(start, graph) {
  const reached = new Set();
  const open = [start];
  while (open.length > 0) {
    for (const next of graph.get(open.pop())?.keys() ?? []) {
      if (reached.has(next)) continue;
      reached.add(next);
      open.push(next);
    }
  }
  return reached;
}
