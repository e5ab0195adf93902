import { parseArgs } from "node:util";
import { type Epoch, type FaultName, faultNames, proveServed } from "./served.ts";
import { type Outcome, simulated } from "./simulation.ts";

const USAGE = `npm run proof -- [options]
  --seconds N   how long to run over HTTP, with one fault after another (default 120; 0 for not at all)
  --seeds N     how many seeds to simulate (default 2000; 0 for none)
  --seed N      the first seed; with --seeds 1 a failing one is run again exactly
  --clients N   clients at once over HTTP (default 12)
  --faults A,B  only these faults over HTTP: ${faultNames.join(", ")}
  --only NAME   objects of one kind alone over HTTP, as "Doors" for files by REST and SMB
  --first       end with the first failure
`;

const say = (line: string) => void process.stdout.write(`${line}\n`);

/** The long run: simulates seeds, then serves over HTTP while things go wrong; prints what happened. */
async function prove(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string", default: "120" },
      seeds: { type: "string", default: "2000" },
      seed: { type: "string", default: "1" },
      clients: { type: "string", default: "12" },
      faults: { type: "string", default: faultNames.join() },
      only: { type: "string" },
      first: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    say(USAGE);
    return 0;
  }
  const first = Number(values.seed);
  const failed = await simulateAll(first, Number(values.seeds), values.first);
  if (failed > 0 && values.first) return failed;
  const faults = faultNames.filter((name) => values.faults.split(",").includes(name));
  const { only } = values;
  const rest = { seed: first, clients: Number(values.clients), faults, only, first: values.first };
  return failed + (await serveFor(Number(values.seconds), rest));
}

/** Runs each seed; gives how many failed. */
async function simulateAll(first: number, count: number, endsFirst: boolean): Promise<number> {
  const begin = performance.now();
  const outcomes: Outcome[] = [];
  for (let seed = first; seed < first + count; seed++) {
    const outcome = await simulated(seed);
    outcomes.push(outcome);
    if (outcome.violations.length > 0) {
      say(`seed ${seed} fails; again: npm run proof -- --seconds 0 --seeds 1 --seed ${seed}`);
      say(outcome.violations.join("\n"));
      if (endsFirst) return 1;
    }
  }
  const sum = (of: (outcome: Outcome) => number) => outcomes.reduce((all, one) => all + of(one), 0);
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  const failed = outcomes.filter(({ violations }) => violations.length > 0).length;
  say(`Simulation: ${count} seeds in ${seconds} s, ${failed} failed`);
  say(
    `  ${sum(({ operations }) => operations)} operations answered on ${sum(({ objects }) => objects)} objects`,
  );
  say(
    `  ${sum(({ unanswered }) => unanswered)} unanswered, ${sum(({ cutBodies }) => cutBodies)} bodies cut short`,
  );
  say(
    `  ${sum(({ steps }) => steps)} steps, ${sum(({ conflicts }) => conflicts)} transactions run again`,
  );
  say(
    `  ${sum(({ powerCuts }) => powerCuts)} power cuts, ${sum(({ clockSteps }) => clockSteps)} clock steps, ${sum(({ fullDisks }) => fullDisks)} full disks`,
  );
  say(`  ${sum(({ unknown }) => unknown)} histories too long to judge`);
  return failed;
}

type ServeOptions = {
  readonly seed: number;
  readonly clients: number;
  readonly faults: readonly FaultName[];
  readonly only: string | undefined;
  readonly first: boolean;
};

/** Goes through all faults again and again; gives how many epochs failed. */
async function serveFor(
  seconds: number,
  { seed: begin, clients, faults, only, first }: ServeOptions,
): Promise<number> {
  const until = performance.now() + seconds * 1000;
  const epochs: Epoch[] = [];
  for (let seed = begin; performance.now() < until; seed++) {
    const told = (epoch: Epoch) => {
      for (const violation of epoch.violations) say(`seed ${seed}, ${epoch.fault}: ${violation}`);
    };
    epochs.push(...(await proveServed({ seed, clients, operations: 80, faults, only, told })));
    if (first && epochs.some(({ violations }) => violations.length > 0)) break;
  }
  for (const fault of faultNames) {
    const all = epochs.filter((epoch) => epoch.fault === fault);
    const sum = (of: (epoch: Epoch) => number) => all.reduce((total, one) => total + of(one), 0);
    const counts = [
      `${sum(({ operations }) => operations)} operations answered`,
      `${sum(({ unanswered }) => unanswered)} not`,
      `${sum(({ busy }) => busy)} refused with 503`,
      `${sum(({ faults }) => faults)} faults`,
      `${sum(({ objects }) => objects)} histories, ${sum(({ unknown }) => unknown)} too long to judge`,
      `${sum(({ violations }) => violations.length)} violations`,
    ];
    if (all.length > 0) say(`HTTP, ${fault}: ${counts.join(", ")}`);
  }
  return epochs.filter(({ violations }) => violations.length > 0).length;
}

process.exitCode = (await prove()) === 0 ? 0 : 1;
