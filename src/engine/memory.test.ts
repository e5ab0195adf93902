import { memoryEngine } from "./memory.ts";
import { engineConformance } from "./conformance.ts";

engineConformance("memory", { open: async (clock) => memoryEngine({ clock }) });

let turn = 0;
engineConformance("memory engine with conflicts", {
  open: async (clock) => memoryEngine({ clock, conflicts: () => turn++ % 2 === 0 }),
});
