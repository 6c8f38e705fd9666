import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { RocmForgeError } from '../../../../shared/errors.js';
import { packageRoot } from '../../../../shared/package.js';

/** A file of the page. */
export interface PageFile {
  readonly type: string;
  readonly gzipped: Buffer;
}

const FOLDER = path.join(packageRoot, 'dist', 'page');
const GZIP = '.gz';
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
};

let files: ReadonlyMap<string, PageFile> | undefined;

/**
 * Files of the page by name, compressed. They are read with the first request for one: a gateway whose page is never opened
 * does not hold them.
 *
 * @throws RocmForgeError `PATH_NOT_FOUND` if the page was not built
 */
export function pageFiles(): ReadonlyMap<string, PageFile> {
  files ??= new Map(namesOf(FOLDER).map((name) => [name.slice(0, -GZIP.length), readPageFile(name)]));
  return files;
}

function namesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith(GZIP));
  } catch {
    throw new RocmForgeError('PATH_NOT_FOUND', 'files of the page are missing; run npm run build:page', {
      field: 'path',
    });
  }
}

function readPageFile(name: string): PageFile {
  const type = TYPES[path.extname(name.slice(0, -GZIP.length))] ?? 'application/octet-stream';
  return { type, gzipped: readFileSync(path.join(FOLDER, name)) };
}
