# The report page: npm brings its chart library into the build folder, build.mjs makes one HTML
# template of web/src, and the template goes into a library as a string.
find_program(NPM npm REQUIRED)
find_program(NODE NAMES node nodejs REQUIRED)

set(LOCKSTEP_WEB_FOLDER ${CMAKE_BINARY_DIR}/web)
set(LOCKSTEP_REPORT_TEMPLATE ${LOCKSTEP_WEB_FOLDER}/report_template.html)
set(web_source ${CMAKE_SOURCE_DIR}/web)
set(packages package.json package-lock.json .npmrc)
list(TRANSFORM packages PREPEND ${web_source}/ OUTPUT_VARIABLE package_files)

add_custom_command(
  OUTPUT ${LOCKSTEP_WEB_FOLDER}/packages.stamp
  COMMAND ${CMAKE_COMMAND} -E copy ${package_files} ${LOCKSTEP_WEB_FOLDER}
  COMMAND ${NPM} ci --loglevel=error --prefer-offline
  COMMAND ${CMAKE_COMMAND} -E touch ${LOCKSTEP_WEB_FOLDER}/packages.stamp
  DEPENDS ${package_files}
  WORKING_DIRECTORY ${LOCKSTEP_WEB_FOLDER}
  COMMENT "Fetching the report page's packages"
  VERBATIM)
file(MAKE_DIRECTORY ${LOCKSTEP_WEB_FOLDER})

file(GLOB_RECURSE page_sources CONFIGURE_DEPENDS ${web_source}/src/*)
add_custom_command(
  OUTPUT ${LOCKSTEP_REPORT_TEMPLATE}
  COMMAND ${NODE} ${web_source}/build.mjs ${LOCKSTEP_REPORT_TEMPLATE}
  DEPENDS ${LOCKSTEP_WEB_FOLDER}/packages.stamp ${web_source}/build.mjs ${web_source}/licences.mjs
          ${page_sources}
  WORKING_DIRECTORY ${LOCKSTEP_WEB_FOLDER}
  COMMENT "Bundling the report page"
  VERBATIM)

add_custom_command(
  OUTPUT ${LOCKSTEP_WEB_FOLDER}/report_template.inc
  COMMAND ${CMAKE_COMMAND} -Dfrom=${LOCKSTEP_REPORT_TEMPLATE}
          -Dto=${LOCKSTEP_WEB_FOLDER}/report_template.inc -P ${CMAKE_SOURCE_DIR}/cmake/raw_string.cmake
  DEPENDS ${LOCKSTEP_REPORT_TEMPLATE} ${CMAKE_SOURCE_DIR}/cmake/raw_string.cmake
  VERBATIM)

add_custom_target(report_template DEPENDS ${LOCKSTEP_WEB_FOLDER}/report_template.inc)

# Its sources may include "web/report_template.inc".
function(lockstep_embed_report target)
  add_dependencies(${target} report_template)
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR})
endfunction()
