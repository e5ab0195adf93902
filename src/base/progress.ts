/** Where progress is told: a terminal's line is written over, elsewhere a line comes every few seconds. */
export type ProgressOptions = {
  readonly write: (text: string) => void;
  readonly isTerminal: boolean;
  /** Milliseconds from some beginning on. */
  readonly now: () => number;
};

const TERMINAL_MS = 100;
const LINES_MS = 5_000;
const CLEAR_LINE = "\r\u001b[K";

/** Tells how far a long work has come, not more often than somebody can read it. */
export class Progress {
  readonly #options: ProgressOptions;
  #next: number;
  #isShown = false;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#next = options.now() + (options.isTerminal ? 0 : LINES_MS);
  }

  tell(text: () => string): void {
    const { write, isTerminal, now } = this.#options;
    const at = now();
    if (at < this.#next) return;
    this.#next = at + (isTerminal ? TERMINAL_MS : LINES_MS);
    write(isTerminal ? `${CLEAR_LINE}${text()}` : `${text()}\n`);
    this.#isShown = isTerminal;
  }

  /** Takes the line away, before something else is said. */
  clear(): void {
    if (this.#isShown) this.#options.write(CLEAR_LINE);
    this.#isShown = false;
  }
}

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/** A size as people read it. */
export function sizeText(bytes: number): string {
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${UNITS[unit]}`;
}
