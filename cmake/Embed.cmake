# headroom_embed(TARGET FUNCTION FILES…): compiles text files into TARGET, so that the binary can be copied alone.
# The generated source defines `std::span<const EmbeddedFile> headroom::FUNCTION()` (models/base/embedded.h).
function(headroom_embed target function)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${function}.cc)
  string(REPLACE ";" "|" files "${ARGN}")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFUNCTION=${function} "-DFILES=${files}" -DROOT=${PROJECT_SOURCE_DIR}
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake
    COMMENT "Embedding ${function}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
