import { engineConformance } from "./conformance.ts";
import { memoryEngine } from "./memory.ts";

engineConformance("memory", { open: async (clock) => memoryEngine({ clock }) });

let turn = 0;
engineConformance("memory engine with conflicts", {
  open: async (clock) => memoryEngine({ clock, conflicts: () => turn++ % 2 === 0 }),
});
