import { writeFileSync } from "node:fs";
import { documents } from "./documents.ts";

for (const [path, make] of Object.entries(documents)) writeFileSync(path, make());
