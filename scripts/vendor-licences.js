// Print the licences of the packages in ./node_modules, each text once, below the packages that it is of: a bundle has
// parts of packages that its own licence does not name.
const fs = require("fs");
const path = require("path");

const found = new Map();
const visit = (folder) => {
  for (const name of fs.existsSync(folder) ? fs.readdirSync(folder).sort() : []) {
    const here = path.join(folder, name);
    if (name.startsWith("@")) visit(here);
    if (!fs.existsSync(path.join(here, "package.json"))) continue;
    const { name: full, version, license } = JSON.parse(fs.readFileSync(path.join(here, "package.json")));
    const file = fs.readdirSync(here).find((each) => /^licen[cs]e/i.test(each));
    const text = file ? fs.readFileSync(path.join(here, file), "utf8").replace(/\r/g, "").trim() : `Licence: ${license}`;
    found.set(text, [...(found.get(text) ?? []), `${full} ${version}`]);
    visit(path.join(here, "node_modules"));
  }
};
visit("node_modules");
for (const [text, packages] of found) {
  console.log(`${[...new Set(packages)].join("\n")}\n\n${text}\n\n${"-".repeat(78)}\n`);
}
