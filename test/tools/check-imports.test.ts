import { describe, expect, it } from 'vitest';
import { importComplaints } from '../../tools/check-imports.mjs';

/** Complaints about files that hold nothing but these lines. */
function complaints(files: Record<string, string>): string[] {
  return importComplaints(new Map(Object.entries(files)));
}

describe('imports', () => {
  it('that point one way are right', () => {
    const files = {
      'src/shared/errors.ts': '',
      'src/lib/jinja/json.ts': "import { readJson } from '../json/exact-json.js';",
      'src/executor/serve/service.ts': "import { RocmForgeError } from '../shared/errors.js';",
      'src/gateway/chat/chat-template.ts': "import { Tokenizer } from '../../lib/tokenizer/tokenizer.js';",
      'src/gateway/request/generation.ts':
        "import { WorkerPool } from '../threads/worker-pool.js';\nimport { Completion } from './completion.js';",
      'src/gateway/replica/link/executor-session.ts':
        "import { credentials } from '@grpc/grpc-js';\nimport { Generation } from '../../request/generation.js';",
      'src/gateway/router.ts': "import { Replica } from './replica/replica.js';",
      'src/gateway/api/grpc/public-server.ts':
        "import { Server } from '@grpc/grpc-js';\nimport { Router } from '../../router.js';",
      'src/gateway/main.ts': "import './api/grpc/public-server.js';\nimport './metrics.js';",
      'src/cli/main.ts': "const both = [import('../gateway/main.js'), import('../executor/main.js')];",
    };
    expect(complaints(files)).toEqual([]);
  });

  it.each([
    ['from the gateway to the executor', 'src/gateway/main.ts', "import '../executor/main.js';"],
    ['from the executor to the gateway', 'src/executor/main.ts', "import '../gateway/main.js';"],
    ['from what is shared to the gateway', 'src/shared/log.ts', "import '../gateway/main.js';"],
    ['from the gateway to the command', 'src/gateway/main.ts', "import '../cli/main.js';"],
    ['of a type alone', 'src/executor/main.ts', "import type { Gateway } from '../gateway/main.js';"],
    ['of a type, where it is used', 'src/executor/main.ts', "let gateway: import('../gateway/main.js').Gateway;"],
    ['that is put off', 'src/executor/main.ts', "const gateway = await import('../gateway/main.js');"],
    ['that is handed on', 'src/shared/log.ts', "export { startGateway } from '../gateway/main.js';"],
    ['from a library to the gateway', 'src/lib/jinja/a.ts', "import '../../gateway/main.js';"],
    ['from a library to what is shared', 'src/lib/grammar/a.ts', "import '../../shared/errors.js';"],
    ['from a library to a later one', 'src/lib/json/a.ts', "import '../grammar/grammar.js';"],
    ['from the client to a library', 'src/client/a.ts', "import '../lib/json/exact-json.js';"],
    ['from threads to requests', 'src/gateway/threads/a.ts', "import '../request/limits.js';"],
    ['from chats to requests', 'src/gateway/chat/a.ts', "import '../request/limits.js';"],
    ['from requests to replicas', 'src/gateway/request/a.ts', "import '../replica/replica.js';"],
    ['from replicas to the router', 'src/gateway/replica/a.ts', "import '../router.js';"],
    ['from the router to servers', 'src/gateway/router.ts', "import './api/grpc/public-server.js';"],
    ['from the client to the gateway', 'src/client/a.ts', "import '../gateway/main.js';"],
    ['from servers to the root', 'src/gateway/api/grpc/a.ts', "import '../../main.js';"],
    ['from a folder that has no place in the order', 'src/gateway/other/a.ts', "import '../request/limits.js';"],
    ['from a part that has no rule', 'src/other/a.ts', "import '../shared/log.js';"],
    ['to what is no source', 'src/shared/a.ts', "import '../support/gateway.js';"],
    ['from replicas to gRPC’s server', 'src/gateway/replica/a.ts', "import { Server } from '@grpc/grpc-js';"],
    ['from replicas to all of gRPC', 'src/gateway/replica/a.ts', "import * as grpc from '@grpc/grpc-js';"],
    ['from replicas to our server', 'src/gateway/replica/a.ts', "import { bind } from '../../shared/grpc/server.js';"],
    ['from requests to gRPC', 'src/gateway/request/a.ts', "import type { Metadata } from '@grpc/grpc-js';"],
    [
      'from requests to our gRPC',
      'src/gateway/request/a.ts',
      "import { toStatus } from '../../shared/grpc/status.js';",
    ],
  ])('%s are found', (_what, file, line) => {
    expect(complaints({ [file]: line })).toEqual([expect.stringContaining(`${file} imports `)]);
  });
});

describe('cycles across folders', () => {
  const cycle = {
    'src/executor/device/device.ts': "import type { Plan } from '../kernels/plan.js';",
    'src/executor/kernels/plan.ts': "import '../model/weights.js';",
    'src/executor/model/weights.ts': "import '../device/device.js';",
    'src/executor/main.ts': "import './model/weights.js';",
  };
  const name = 'executor/device, executor/kernels, executor/model';

  it('are found, with an import for each step', () => {
    const [complaint, ...others] = complaints(cycle);
    expect(others).toEqual([]);
    expect(complaint).toContain(`${name} import one another`);
    expect(complaint).toContain('src/executor/kernels/plan.ts imports src/executor/model/weights.js');
  });

  it('are none within a folder', () => {
    const files = {
      'src/gateway/request/sequence.ts': "import './prefix.js';",
      'src/gateway/request/prefix.ts': "import './encoding/text-jobs.js';",
      'src/gateway/request/encoding/text-jobs.ts': "import '../sequence.js';",
    };
    expect(complaints(files)).toEqual([]);
  });
});
