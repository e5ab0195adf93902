import { containerLease } from "./container-lease.ts";
import { entity } from "./entity.ts";
import { exclusiveWriter } from "./exclusive-writer.ts";
import { guardedTable } from "./guarded-table.ts";
import { leader } from "./leader.ts";
import { leasedFile } from "./leased-file.ts";
import { lockedFile } from "./locked-file.ts";
import { removeAll, type Scene } from "./scene.ts";
import { wiki } from "./wiki.ts";
import { worker } from "./worker.ts";

/** In the order they are told; they are played side by side. */
const scenes: readonly Scene[] = [
  wiki,
  exclusiveWriter,
  containerLease,
  entity,
  guardedTable,
  worker,
  leader,
  leasedFile,
  lockedFile,
];

const played = scenes.map(async ({ title, play }) => {
  const lines: string[] = [];
  await play((line) => void lines.push(`  ${line}\n`));
  return `${title}\n${lines.join("")}`;
});

try {
  let isFirst = true;
  for (const text of await Promise.all(played)) {
    process.stdout.write(`${isFirst ? "" : "\n"}${text}`);
    isFirst = false;
  }
} finally {
  await Promise.allSettled(played);
  await removeAll();
}
