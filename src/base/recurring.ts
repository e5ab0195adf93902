/** A task that is done over and over. */
export type Recurring = {
  /** Lets the run that is under way come to its end; no other follows. */
  stop(): Promise<void>;
};

/** Does a task at once, and again `pauseMs` after each end. A long one asks now and then whether it is to stop. */
export function recurring(
  task: (isStopped: () => boolean) => Promise<void>,
  pauseMs: number,
): Recurring {
  let timer: NodeJS.Timeout | undefined;
  let hasStopped = false;
  const again = async () => {
    await task(() => hasStopped);
    if (hasStopped) return;
    timer = setTimeout(() => {
      running = again();
    }, pauseMs).unref();
  };
  let running = again();
  return {
    async stop() {
      hasStopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}
