# What `cmake --install` puts where, by GNUInstallDirs. The components, for a packager to choose from with --component:
#   channeld     the server and its man page
#   channelctl   the same of the operator's tool
#   systemd      the units and their environment file
#   doc          documents, examples, alert rules, the dashboard, configurations of proxies
# Man pages and the environment file are written by the target `manual`.

include(GNUInstallDirs)

set(manual "${PROJECT_BINARY_DIR}/manual")
foreach(program IN ITEMS channeld:8 channelctl:1)
    string(REPLACE ":" ";" program "${program}")
    list(POP_FRONT program name section)
    install(TARGETS ${name} RUNTIME COMPONENT ${name})
    install(FILES ${manual}/${name}.${section} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${name})
endforeach()

# Which paths the units have to name is known when they are installed: --prefix may choose another one then.
configure_file(cmake/install-service.cmake.in ${PROJECT_BINARY_DIR}/install-service.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/install-service.cmake COMPONENT systemd)

# Documents and what they link to: structure.install follows the links.
file(GLOB documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc)
foreach(folder IN ITEMS bench deploy/k8s deps)
    install(FILES ${folder}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT doc)
endforeach()
install(DIRECTORY bench/results DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench COMPONENT doc)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT doc USE_SOURCE_PERMISSIONS
    PATTERN .gitignore EXCLUDE PATTERN node_modules EXCLUDE PATTERN dist EXCLUDE PATTERN __pycache__ EXCLUDE)
install(FILES ${documents} docs/openapi.json docs/dashboard.png DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT doc)
install(FILES deploy/prometheus/rules.yml deploy/prometheus/alertmanager.yml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/prometheus COMPONENT doc)
install(FILES deploy/haproxy/channeld.cfg DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/haproxy COMPONENT doc)
install(FILES deploy/nginx/channeld.conf deploy/nginx/channeld-replicas.conf
    DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/nginx COMPONENT doc)
install(PROGRAMS deploy/nginx/check-replicas DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/nginx COMPONENT doc)
install(FILES deploy/grafana/channeld.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/grafana COMPONENT doc)
