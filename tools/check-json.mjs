// Files that may call JSON.parse: it rounds numbers and reorders keys, so that what a client sends is read by
// src/lib/json/exact-json.ts.
import ts from '@typescript/typescript6';

/** Files that call JSON.parse, by path from the repository's root, and why nothing of a client's is lost there. */
export const MAY_PARSE = {
  'src/lib/json/exact-json.ts': 'unescapes one string',
  'src/gateway/chat/answer/json-call.ts': 'unescapes one string',
  'src/shared/fault-log.ts': "the gateway's own file",
  'src/shared/package.ts': 'package.json',
  'src/shared/readable-log.ts': "the gateway's own log lines",
  'src/gateway/trust/jwt.ts': "the operator's keys",
  'src/gateway/trust/limits.ts': "the operator's limits, which are small numbers",
  'src/cli/bench/load-comparison.ts': 'a report of the command itself',
  'src/cli/chat/conversation.ts': 'a file of the command itself, in which arguments of calls are strings',
  'src/cli/doctor/code-objects.ts': 'a manifest of the package',
  'src/page/chat/answer-run.ts': 'events of an answer: no number in them is larger than a count of tokens',
  'src/page/chat/transfer.ts': 'a file of the page itself',
  'src/page/server/chat-body.ts': 'only checks a text that is sent as it is',
  'src/page/views/tool-calls.tsx': 'shows arguments, as they are if a number was rounded',
  'src/executor/load/kernel-files.ts': 'the manifest of built kernels',
  'src/executor/device/kept-memory.ts': "another executor's header",
  'src/executor/keeper/client.ts': "the keeper's answers",
  'src/executor/keeper/keeper.ts': "executors' requests to the keeper",
  'src/executor/load/model-loader.ts': "another executor's limits, which are small numbers",
  'src/executor/load/placement.ts': "another executor's limits, which are small numbers",
  'src/executor/model/noted-weights.ts': "another executor's checksums, which are texts",
  'src/cli/admin/report.ts': "the gateway's own options and faults",
  'src/cli/verify/predicted-speeds.ts': 'a file of the package',
  'src/cli/verify/teacher-forced.ts': 'a file of the package',
};

/**
 * Calls of `JSON.parse` in files that may not, and names of files that no longer call it, a sentence each.
 *
 * @param {ReadonlyMap<string, string>} sources TypeScript by its path from the repository's root
 * @param {Readonly<Record<string, string>>} mayParse reasons by file
 * @returns {string[]}
 */
export function jsonComplaints(sources, mayParse = MAY_PARSE) {
  const complaints = [];
  for (const [file, source] of sources) {
    if (!file.startsWith('src/')) continue;
    const lines = linesThatParse(file, source);
    if (Object.hasOwn(mayParse, file)) {
      if (lines.length === 0) complaints.push(`${file} calls no JSON.parse; remove it from tools/check-json.mjs`);
      continue;
    }
    for (const line of lines) {
      complaints.push(
        `${file}:${line} calls JSON.parse, which rounds numbers; call parseJson of src/lib/json/exact-json.ts, or give a reason in tools/check-json.mjs`,
      );
    }
  }
  return complaints;
}

/**
 * Lines on which `JSON.parse` is named, whether it is called there or passed on.
 *
 * @param {string} file
 * @param {string} source
 */
function linesThatParse(file, source) {
  if (!source.includes('JSON')) return [];
  /** @type {number[]} */
  const lines = [];
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.ES2022, true);
  const isJson = (/** @type {ts.Node} */ node) => ts.isIdentifier(node) && node.text === 'JSON';
  const note = (/** @type {ts.Node} */ node) =>
    lines.push(tree.getLineAndCharacterOfPosition(node.getStart()).line + 1);
  const visit = (/** @type {ts.Node} */ node) => {
    if (ts.isPropertyAccessExpression(node) && isJson(node.expression) && node.name.text === 'parse') note(node);
    if (ts.isElementAccessExpression(node) && isJson(node.expression)) note(node);
    if (ts.isVariableDeclaration(node) && node.initializer !== undefined && isJson(node.initializer)) note(node);
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return lines;
}
