import type { ElementContent, Root } from 'hast';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import lua from 'highlight.js/lib/languages/lua';
import markdown from 'highlight.js/lib/languages/markdown';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import swift from 'highlight.js/lib/languages/swift';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';
import type { HighlightedLine, HighlightedPart } from './highlight.js';

const lowlight = createLowlight({
  ...{ bash, c, cpp, csharp, css, diff, go, java, javascript, json, kotlin },
  ...{ lua, markdown, php, python, ruby, rust, sql, swift, typescript, xml, yaml },
});

/** Code as lines of colored parts; undefined if the language is unknown. */
export function highlight(code: string, language: string): readonly HighlightedLine[] | undefined {
  const name = language.toLowerCase();
  return lowlight.registered(name) ? linesOf(lowlight.highlight(name, code)) : undefined;
}

function linesOf(root: Root): readonly HighlightedLine[] {
  const lines: HighlightedPart[][] = [[]];
  const add = (text: string, scope: string): void => {
    for (const [i, line] of text.split('\n').entries()) {
      if (i > 0) lines.push([]);
      if (line !== '') lines.at(-1)?.push({ text: line, scope });
    }
  };
  const visit = (node: ElementContent | Root, scope: string): void => {
    if (node.type === 'text') add(node.value, scope);
    if (node.type !== 'element' && node.type !== 'root') return;
    const names = node.type === 'element' ? node.properties.className : undefined;
    const inner = Array.isArray(names) ? names.join(' ') : scope;
    for (const child of node.children) visit(child as ElementContent, inner);
  };
  visit(root, '');
  return lines;
}
