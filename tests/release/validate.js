// Validates bills of materials against CycloneDX's strict schema: node validate.js NODE_MODULES FILE...
"use strict";
const fs = require("fs");
const path = require("path");

const [modules, ...files] = process.argv.slice(2);
const { Spec, Validation } = require(path.resolve(modules, "@cyclonedx/cyclonedx-library"));
const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6);

(async () => {
    for (const file of files) {
        const error = await validator.validate(fs.readFileSync(file, "utf8"));
        if (error) {
            console.log(`${file}: ${JSON.stringify(error)}`);
            process.exitCode = 1;
        }
    }
})();
